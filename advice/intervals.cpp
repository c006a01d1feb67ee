#include "advice/intervals.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "advice/drawn_timeline.hpp"
#include "model/base/statistics.hpp"
#include "model/cluster/variation.hpp"
#include "model/predict/deviation.hpp"
#include "model/predict/drawn_steps.hpp"
#include "model/predict/factor_draws.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

using model::DrawnTimes;
using model::FactorDraws;
using model::LatencyStats;
using model::Metrics;
using model::Result;
using model::TimeIntervals;
using planner::Plan;

// Equal plans have equal draws.
FactorDraws draws_of(const Plan& plan) {
  std::vector<model::DeviceDeviation> deviations;
  std::vector<std::string> profiles;
  for (const model::DeviceProfile& profile : plan.profiles) {
    deviations.push_back(model::deviation_of(profile, plan.model));
    profiles.push_back(profile.source);
  }
  constexpr int kHexadecimal = 16;
  const std::uint64_t seed =
      std::stoull(planner::plan_sha256(plan).substr(0, kHexadecimal), nullptr, kHexadecimal);
  return {deviations, profiles, seed};
}

void describe(const Plan& plan, std::size_t repetitions, Result& result) {
  std::string& text = result.environment["intervals"];
  text = model::deviation_remark(plan.cluster, plan.profiles);
  if (repetitions > 1) {
    text += " but for what varies, of which " + std::to_string(repetitions) +
            " repetitions are part of the intervals";
  } else if (model::varies_by_chance(plan.cluster)) {
    text +=
        ", jitter and loss as the seed has them; '--repetitions 20' makes them part of the "
        "intervals";
  }
}

// The interval of `value`, of which `drawn(k)` is draw k.
template <class Drawn>
std::optional<model::Interval> interval(double value, const Drawn& drawn) {
  std::vector<double> draws;
  for (std::size_t k = 1; k < FactorDraws::kCount; ++k) draws.push_back(std::max(0.0, drawn(k)));
  return model::interval_90(draws, value);
}

// The same of latencies.
template <class Drawn>
std::optional<model::LatencyIntervals> latency_intervals(const LatencyStats& value,
                                                         const Drawn& drawn) {
  const auto one = [&](double LatencyStats::*statistic) {
    return interval(value.*statistic, [&](std::size_t k) { return drawn(k, statistic); });
  };
  const auto mean = one(&LatencyStats::mean);
  const auto p50 = one(&LatencyStats::p50);
  const auto p90 = one(&LatencyStats::p90);
  const auto p99 = one(&LatencyStats::p99);
  if (!mean || !p50 || !p90 || !p99) return std::nullopt;
  return model::LatencyIntervals{.mean = *mean, .p50 = *p50, .p90 = *p90, .p99 = *p99};
}

// What draws add to each step of a generation: the first ones, one in the middle and the last are
// evaluated, the others lie between. Costs, and with them the additions, are affine in the number
// of positions before a step as long as the step waits for the same things.
class AddedTimes {
 public:
  explicit AddedTimes(const Plan& plan) {
    const FactorDraws draws = draws_of(plan);
    const model::CostModel costs = plan.cost_model();
    model::DrawnSteps steps(plan.cluster, costs, draws, plan.master);
    planner::GenerationSteps generation(plan);
    const std::int32_t last = generation.count() - 1;
    DrawnTimes before{};
    for (const std::int32_t step : {0, 1, 2, last / 2, last}) {
      if (step > last || (!steps_.empty() && step <= steps_.back().first)) continue;
      const DrawnTimes done = steps.run(generation.graph(step));
      DrawnTimes added{};
      for (std::size_t k = 0; k < added.size(); ++k)
        added[k] = (done[k] - before[k]) - (done[0] - before[0]);
      base_.push_back(done[0] - before[0]);
      steps_.emplace_back(step, added);
      before = done;
    }
  }

  [[nodiscard]] DrawnTimes of(std::int32_t step) const {
    const auto above = std::ranges::lower_bound(steps_, step, {}, &Step::first);
    if (above == steps_.end()) return steps_.back().second;
    if (above->first == step || step < 1) return above->second;
    const auto below = std::prev(above);
    const double t = static_cast<double>(step - below->first) / (above->first - below->first);
    DrawnTimes added{};
    for (std::size_t k = 0; k < added.size(); ++k)
      added[k] = std::lerp(below->second[k], above->second[k], t);
    return added;
  }
  // For a cluster whose devices' speeds change, which draws know nothing of: in proportion.
  void scale(double first_s) {
    if (base_.front() <= 0.0) return;
    const double factor = first_s / base_.front();
    for (Step& step : steps_) {
      for (double& added : step.second) added *= factor;
    }
  }

 private:
  using Step = std::pair<std::int32_t, DrawnTimes>;
  std::vector<Step> steps_{};
  std::vector<double> base_{};
};

// Of so many gaps between tokens at most statistics are drawn.
constexpr std::size_t kMostGaps = 1024;

// Statistics of the gaps between tokens, by draw.
std::vector<LatencyStats> drawn_latencies(const std::vector<double>& gaps,
                                          const AddedTimes& added) {
  const std::size_t stride = (gaps.size() + kMostGaps - 1) / kMostGaps;
  std::vector<std::vector<double>> drawn(FactorDraws::kCount);
  for (std::size_t i = 0; i < gaps.size(); i += stride) {
    const DrawnTimes more = added.of(static_cast<std::int32_t>(i) + 1);
    for (std::size_t k = 0; k < drawn.size(); ++k)
      drawn[k].push_back(std::max(0.0, gaps[i] + more[k]));
  }
  std::vector<LatencyStats> stats;
  stats.reserve(drawn.size());
  for (const std::vector<double>& one : drawn) stats.push_back(model::latency_stats(one));
  return stats;
}

const Metrics& repetition(std::span<const Metrics> all, std::size_t draw) {
  return all[(draw - 1) % all.size()];
}

double end_of(const Metrics& metrics) {
  return metrics.token_times_s.empty() ? metrics.ttft_s : metrics.token_times_s.back();
}

}  // namespace

void set_intervals(const Plan& plan, std::span<const Metrics> repetitions, Result& result) {
  AddedTimes added(plan);
  const Metrics& metrics = result.metrics;
  if (std::ranges::any_of(plan.cluster.devices(),
                          [](const model::Device& device) { return !device.speeds.empty(); }))
    added.scale(metrics.ttft_s);
  const std::vector<double> gaps = metrics.token_latencies_s();
  const DrawnTimes first = added.of(0);
  DrawnTimes all = first;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const DrawnTimes more = added.of(static_cast<std::int32_t>(i) + 1);
    for (std::size_t k = 0; k < all.size(); ++k) all[k] += more[k];
  }
  TimeIntervals times;
  times.ttft_s = interval(
      metrics.ttft_s, [&](std::size_t k) { return repetition(repetitions, k).ttft_s + first[k]; });
  const auto end = [&](std::size_t k) { return end_of(repetition(repetitions, k)) + all[k]; };
  if (!gaps.empty()) {
    const std::vector<LatencyStats> drawn = drawn_latencies(gaps, added);
    std::vector<LatencyStats> repeated;
    for (const Metrics& one : repetitions)
      repeated.push_back(model::latency_stats(one.token_latencies_s()));
    times.token_latency_s = latency_intervals(
        model::latency_stats(gaps), [&](std::size_t k, double LatencyStats::*statistic) {
          return repeated[(k - 1) % repeated.size()].*statistic + drawn[k].*statistic -
                 drawn[0].*statistic;
        });
  }
  for (model::RequestResult& request : result.requests) {
    request.interval_90 = times;
    request.interval_90->end_s = interval(request.end_s, end);
  }
  if (metrics.throughput_tokens_per_s) {
    const auto tokens = static_cast<double>(metrics.token_times_s.size());
    times.throughput_tokens_per_s =
        interval(*metrics.throughput_tokens_per_s, [&](std::size_t k) { return tokens / end(k); });
  }
  result.interval_90 = times;
  describe(plan, repetitions.size(), result);
}

void set_served_intervals(const Plan& plan, std::span<const planner::InferenceRequest> requests,
                          std::span<const model::ServedStep> served,
                          std::span<const Result> repetitions, Result& result) {
  const FactorDraws draws = draws_of(plan);
  DrawnTimeline timeline(plan, draws, requests, served);
  std::vector<Result> drawn(FactorDraws::kCount);
  for (std::size_t k = 0; k < drawn.size(); ++k)
    planner::fill_requests(requests, timeline.draw(k), drawn[k]);
  const auto of = [&](double value, const auto& field) {
    return interval(value, [&](std::size_t k) {
      return field(repetitions[(k - 1) % repetitions.size()]) + field(drawn[k]) - field(drawn[0]);
    });
  };
  const auto latencies = [&](const LatencyStats& value, const auto& stats) {
    return latency_intervals(value, [&](std::size_t k, double LatencyStats::*statistic) {
      return stats(repetitions[(k - 1) % repetitions.size()]).*statistic +
             stats(drawn[k]).*statistic - stats(drawn[0]).*statistic;
    });
  };
  for (std::size_t r = 0; r < result.requests.size(); ++r) {
    model::RequestResult& request = result.requests[r];
    TimeIntervals& times = request.interval_90.emplace();
    times.queueing_s =
        of(request.queueing_s, [r](const Result& one) { return one.requests[r].queueing_s; });
    times.ttft_s = of(request.ttft_s, [r](const Result& one) { return one.requests[r].ttft_s; });
    times.end_s = of(request.end_s, [r](const Result& one) { return one.requests[r].end_s; });
    times.token_latency_s = latencies(
        request.token_latency,
        [r](const Result& one) -> const LatencyStats& { return one.requests[r].token_latency; });
  }
  const Metrics& metrics = result.metrics;
  TimeIntervals& times = result.interval_90.emplace();
  times.ttft_s = of(metrics.ttft_s, [](const Result& one) { return one.metrics.ttft_s; });
  const auto stats = [](const Result& one) {
    return one.metrics.token_latency ? *one.metrics.token_latency
                                     : model::latency_stats(one.metrics.token_latencies_s());
  };
  times.token_latency_s = latencies(stats(result), stats);
  if (metrics.throughput_tokens_per_s) {
    times.throughput_tokens_per_s = of(*metrics.throughput_tokens_per_s, [](const Result& one) {
      return one.metrics.throughput_tokens_per_s.value_or(0.0);
    });
  }
  describe(plan, repetitions.size(), result);
}

}  // namespace tandem::study
