#include "cli/views/prediction_watch.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "exec/session/master.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/statistics.hpp"
#include "model/base/text_table.hpp"
#include "model/report/comparability.hpp"
#include "model/report/largest_deviation.hpp"

namespace tandem::cli {
namespace {

constexpr double kNamedPercent = 10.0;

std::string seconds_text(double seconds) { return to_text(model::Seconds{seconds}); }

// Predicted minus the run's, in percent of the latter; nothing where that is no number.
std::optional<double> deviation_percent(double predicted_s, double run_s) {
  const double percent = 100.0 * (predicted_s - run_s) / run_s;
  return std::isfinite(percent) ? std::optional(percent) : std::nullopt;
}

std::string in_brackets(std::optional<double> percent) {
  if (!percent) return "";
  return " (" + std::string(*percent > 0.0 ? "+" : "") + model::fixed(*percent, 1) + "%)";
}

// "42.7 ms, predicted 42.4 ms (-0.7%)".
std::string beside(double run_s, double predicted_s) {
  return seconds_text(run_s) + ", predicted " + seconds_text(predicted_s) +
         in_brackets(deviation_percent(predicted_s, run_s));
}

double mean_gap(const std::vector<double>& times, std::size_t count) {
  return (times[count - 1] - times[0]) / static_cast<double>(count - 1);
}

// In which a time lies with 90% probability, by the prediction.
struct Bounds {
  double low_s = 0.0;
  double high_s = 0.0;
};

std::optional<Bounds> bounds_of(const std::optional<model::Interval>& interval) {
  if (!interval) return std::nullopt;
  return Bounds{interval->low, interval->high};
}

// Of a result, or of one of its requests.
template <class Times>
std::optional<Bounds> ttft_bounds(const Times& times) {
  if (!times.interval_90) return std::nullopt;
  return bounds_of(times.interval_90->ttft_s);
}

struct LatencyBounds {
  std::optional<Bounds> mean{};
  std::optional<Bounds> p50{};
  std::optional<Bounds> p90{};
  std::optional<Bounds> p99{};
};
template <class Times>
LatencyBounds latency_bounds(const Times& times) {
  if (!times.interval_90 || !times.interval_90->token_latency_s) return {};
  const model::LatencyIntervals& all = *times.interval_90->token_latency_s;
  return {Bounds{all.mean.low, all.mean.high}, Bounds{all.p50.low, all.p50.high},
          Bounds{all.p90.low, all.p90.high}, Bounds{all.p99.low, all.p99.high}};
}

// One time of both results, with what the prediction says of its own error.
struct HeldTime {
  std::string_view name;
  double predicted_s = 0.0;
  double run_s = 0.0;
  bool is_always_shown = false;
  std::optional<Bounds> bounds{};  // none: 10%

  [[nodiscard]] bool is_number() const {
    return std::isfinite(predicted_s) && std::isfinite(run_s);
  }
  [[nodiscard]] bool is_off() const {
    if (bounds) return run_s < bounds->low_s || run_s > bounds->high_s;
    return std::abs(deviation_percent(predicted_s, run_s).value_or(0.0)) > kNamedPercent;
  }
  [[nodiscard]] std::string line(std::string_view kind) const {
    std::string text(name);
    text.append(": predicted ").append(seconds_text(predicted_s)).append(", ").append(kind);
    text.append(" ").append(seconds_text(run_s));
    text += in_brackets(deviation_percent(predicted_s, run_s));
    if (!bounds) return text + (is_off() ? ", more than 10% off" : "");
    return text + (is_off() ? ", outside" : ", within") + " its 90% interval [" +
           seconds_text(bounds->low_s) + ", " + seconds_text(bounds->high_s) + "]";
  }
};

model::LatencyStats stats_of(const model::Metrics& metrics) {
  return metrics.token_latency ? *metrics.token_latency
                               : model::latency_stats(metrics.token_latencies_s());
}

double mean_ttft(const model::Result& result) {
  std::vector<double> all;
  for (const model::RequestResult& request : result.requests) all.push_back(request.ttft_s);
  return model::mean(all);
}

double mean_time(const model::Result& result) {
  std::vector<double> all;
  for (const model::RequestResult& request : result.requests)
    all.push_back(request.end_s - request.arrival_s);
  return model::mean(all);
}

// How many requests have their first token outside their intervals; empty if none has, or if the
// prediction has no intervals.
std::string requests_outside(const model::Result& predicted, const model::Result& run) {
  std::size_t outside = 0;
  for (std::size_t i = 0; i < std::min(predicted.requests.size(), run.requests.size()); ++i) {
    const std::optional<Bounds> bounds = ttft_bounds(predicted.requests[i]);
    const double seconds = run.requests[i].ttft_s;
    if (bounds && (seconds < bounds->low_s || seconds > bounds->high_s)) ++outside;
  }
  if (outside == 0) return "";
  return "first token of " + std::to_string(outside) + " of " +
         std::to_string(run.requests.size()) + " requests: outside its 90% interval";
}

// `is_whole`: the run has all of the predicted tokens.
std::vector<HeldTime> held_times(const model::Result& predicted, const model::Result& run,
                                 bool is_whole) {
  std::vector<HeldTime> times;
  if (run.requests.size() > 1) {
    times.push_back({"first token, mean of requests", mean_ttft(predicted), mean_ttft(run), true});
    times.push_back({"request, mean", mean_time(predicted), mean_time(run), true});
  } else {
    times.push_back({run.metrics.token_times_s.empty() ? "the pass" : "first token",
                     predicted.metrics.ttft_s, run.metrics.ttft_s, true, ttft_bounds(predicted)});
  }
  const model::LatencyStats p = stats_of(predicted.metrics);
  const model::LatencyStats r = stats_of(run.metrics);
  // The intervals are of all tokens, of which a text that ends early has fewer.
  const LatencyBounds bounds = is_whole ? latency_bounds(predicted) : LatencyBounds();
  times.push_back({"token latency, mean", p.mean, r.mean, true, bounds.mean});
  times.push_back({"token latency, p50", p.p50, r.p50, false, bounds.p50});
  times.push_back({"token latency, p90", p.p90, r.p90, false, bounds.p90});
  times.push_back({"token latency, p99", p.p99, r.p99, false, bounds.p99});
  std::erase_if(times, [](const HeldTime& time) { return !time.is_number(); });
  return times;
}

// The links on which a device's messages leave it, in words.
std::string links_of(const planner::Plan& plan, const std::string& device) {
  const model::DeviceIndex from = plan.cluster.find(device);
  std::vector<bool> works = exec::workers_of(plan);
  works[static_cast<std::size_t>(plan.master)] = true;
  std::set<std::string> names;
  for (model::DeviceIndex to = 0; to < plan.cluster.size(); ++to) {
    if (to == from || !works[static_cast<std::size_t>(to)]) continue;
    const auto& hops = plan.cluster.route(from, to).hops;
    if (!hops.empty())
      names.insert(plan.cluster.links()[static_cast<std::size_t>(hops.front().link)].name);
  }
  if (names.size() != 1) return "over its links";
  return "over link '" + *names.begin() + "'";
}

std::string part_text(const planner::Plan& plan, const model::LaneDeviation& part) {
  const std::string device = "'" + part.device + "'";
  switch (part.lane) {
    case model::LaneKind::cpu:
      return "computing of " + device;
    case model::LaneKind::disk:
      return "the disk of " + device;
    case model::LaneKind::channel:
      return "messages from " + device + " " + links_of(plan, part.device);
  }
  throw std::logic_error("part_text: no such lane");
}

}  // namespace

std::string PredictionWatch::token(const exec::TokenMoment& token) {
  if (predicted_.requests.size() > 1) return request_token(token);
  const double arrival_s = predicted_.requests.empty() ? 0.0 : predicted_.requests[0].arrival_s;
  times_s_.push_back(token.at_s - arrival_s);
  const std::size_t count = times_s_.size();
  if (count == 1) return "first token after " + beside(times_s_[0], predicted_.metrics.ttft_s);
  const std::vector<double>& expected = predicted_.metrics.token_times_s;
  if (expected.size() < count) return std::to_string(count) + " tokens";
  return std::to_string(count) + " of " + std::to_string(expected.size()) + " tokens, each " +
         beside(mean_gap(times_s_, count), mean_gap(expected, count));
}

std::string PredictionWatch::request_token(const exec::TokenMoment& token) {
  const model::RequestResult& expected = predicted_.requests.at(token.request);
  if (token.is_last) {
    ++ended_;
    run_s_ += token.at_s - expected.arrival_s;
    predicted_s_ += expected.end_s - expected.arrival_s;
  }
  std::string text =
      std::to_string(ended_) + " of " + std::to_string(predicted_.requests.size()) + " requests";
  if (ended_ == 0) return text;
  const auto count = static_cast<double>(ended_);
  return text + ", each " + beside(run_s_ / count, predicted_s_ / count);
}

std::vector<std::string> PredictionWatch::summary(const model::Result& run,
                                                  const planner::Plan& plan) const {
  const std::string kind(kind_of(run.origin));
  model::Result predicted = predicted_;
  // A text that ended early is held against as many predicted tokens.
  std::vector<double>& expected = predicted.metrics.token_times_s;
  expected.resize(std::min(expected.size(), run.metrics.token_times_s.size()));
  std::vector<std::string> lines;
  bool any_off = false;
  const std::string unlike = model::unlike_lengths({"predicted", predicted_}, {kind, run});
  for (const HeldTime& time : held_times(predicted, run, unlike.empty())) {
    any_off = any_off || time.is_off();
    if (time.is_always_shown || time.is_off()) lines.push_back(time.line(kind));
  }
  if (std::string outside = requests_outside(predicted, run);
      run.requests.size() > 1 && !outside.empty())
    lines.push_back(std::move(outside));
  if (!unlike.empty()) {
    lines.push_back(unlike);
    return lines;
  }
  if (const auto part = model::largest_deviation(predicted_, run, kNamedPercent)) {
    const HeldTime time{.name = "", .predicted_s = part->predicted_s, .run_s = part->run_s};
    lines.push_back("deviates most: " + part_text(plan, *part) + time.line(kind));
  } else {
    lines.push_back(
        std::string("no device computes, loads or sends more than 10% longer or "
                    "shorter") +
        (any_off ? ": devices waited longer or shorter, see 'stall' in 'tandem compare'" : ""));
  }
  if (run.origin == model::ResultOrigin::replayed)
    lines.push_back("replayed times follow the prediction's formulas: this tests the program");
  return lines;
}

}  // namespace tandem::cli
