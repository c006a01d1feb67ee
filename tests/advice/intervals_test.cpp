#include "advice/intervals.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "advice/prediction.hpp"
#include "model/predict/analytic.hpp"
#include "model/predict/deviation.hpp"
#include "model/predict/drawn_steps.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/policy/policy.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::intervals_test {
namespace {

using model::DeviceDeviation;
using model::FactorDraws;
using model::Interval;
using model::TaskKind;

struct Case {
  std::string strategy = "tensor";
  std::string allreduce = "star";
  int devices = 2;
  std::int32_t window = 0;
};

planner::Plan plan_for(const Case& of, std::mt19937& random) {
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  std::vector<DeviceSpec> specs;
  specs.reserve(static_cast<std::size_t>(of.devices));
  for (int d = 0; d < of.devices; ++d)
    specs.push_back({.flops_per_s = draw(1, 40) * 1e6,
                     .memory_bytes = 1e12,
                     .disk_bytes_per_s = draw(1, 50) * 1e4});
  auto answer = planner::make_plan(
      {.model = small_model({.layers = 4, .heads = 8, .kv_heads = 8, .intermediate = 12}),
       .cluster = star_cluster(specs),
       .strategy = of.strategy,
       .partition = of.strategy == "local" ? "auto" : "equal",
       .allreduce = of.allreduce,
       .workload = {.prompt_tokens = draw(2, 9), .new_tokens = draw(3, 12)},
       .window = {.blocks = of.window}});
  return std::get<planner::Plan>(std::move(answer));
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {.strategy = "local", .devices = 1},
      {.strategy = "local", .devices = 1, .window = 2},
      {.strategy = "tensor", .allreduce = "star", .devices = 3},
      {.strategy = "tensor", .allreduce = "ring", .devices = 4},
      {.strategy = "tensor", .allreduce = "star", .devices = 2, .window = 2},
      {.strategy = "pipeline", .devices = 3},
  };
  return all;
}

// The plan as if its profiles had been measured, with these errors of every kind and this drift.
planner::Plan with_errors(planner::Plan plan, double fit, double drift) {
  for (model::DeviceProfile& profile : plan.profiles) {
    profile.source = "measured";
    profile.drift = drift;
    profile.disk_spread = fit;
    for (model::KindRate& rate : profile.rate) rate.error = model::RateError{.fit = fit};
  }
  return plan;
}

bool has(const std::optional<Interval>& interval, double value) {
  return interval && interval->low <= value && value <= interval->high;
}
double width(const std::optional<Interval>& interval) {
  REQUIRE(interval);
  return interval->high - interval->low;
}

model::Metrics analytic(const planner::Plan& plan) {
  planner::GenerationSteps steps(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  model::evaluate_analytic(plan.cluster, plan.cost_model(), steps, recorder);
  return recorder.metrics();
}

// When each step's outcome is known, by draw.
std::vector<model::DrawnTimes> drawn(const planner::Plan& plan, const DeviceDeviation& deviation) {
  const std::vector<DeviceDeviation> deviations(plan.profiles.size(), deviation);
  const std::vector<std::string> names(plan.profiles.size(), "p");
  const FactorDraws draws(deviations, names, 11);
  const model::CostModel costs = plan.cost_model();
  model::DrawnSteps steps(plan.cluster, costs, draws, plan.master);
  planner::GenerationSteps generation(plan);
  std::vector<model::DrawnTimes> times;
  times.reserve(static_cast<std::size_t>(generation.count()));
  for (std::int32_t i = 0; i < generation.count(); ++i)
    times.push_back(steps.run(generation.graph(i)));
  return times;
}

}  // namespace

TEST_CASE("study/intervals: draw 0 is the analytic evaluator's times, whatever the strategy") {
  std::mt19937 random(5);
  for (const Case& of : cases()) {
    CAPTURE(of.strategy);
    CAPTURE(of.allreduce);
    CAPTURE(of.window);
    const planner::Plan plan = plan_for(of, random);
    const std::vector<double> expected = analytic(plan).token_times_s;
    const auto times = drawn(plan, {.systematic = 0.3, .drift = 0.1});
    REQUIRE(times.size() == expected.size());
    // Times there are from the master's first start, which is that of the first step.
    const double origin = times[0][0] - expected[0];
    CHECK(origin >= -1e-12);
    for (std::size_t i = 0; i < times.size(); ++i)
      CHECK(times[i][0] - origin == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

TEST_CASE("study/intervals: without errors draws are equal, and greater ones lie further apart") {
  std::mt19937 random(6);
  for (const Case& of : cases()) {
    CAPTURE(of.strategy);
    CAPTURE(of.allreduce);
    CAPTURE(of.window);
    const planner::Plan plan = plan_for(of, random);
    const auto width_of = [&](double part) {
      DeviceDeviation deviation{.systematic = 0.1 * part, .drift = 0.1 * part};
      deviation.kind.fill(0.1 * part);
      const model::DrawnTimes last = drawn(plan, deviation).back();
      const std::vector<double> draws(last.begin() + 1, last.end());
      return width(model::interval_90(draws, last[0])) / last[0];
    };
    double before = width_of(0.0);
    CHECK(before == 0.0);
    for (const double part : {0.25, 0.5, 1.0, 2.0, 4.0}) {
      const double now = width_of(part);
      CHECK(now > before);
      before = now;
    }
  }
}

TEST_CASE("study/intervals: all times that are c times as long give intervals c times as wide") {
  std::mt19937 random(7);
  planner::Plan plan = plan_for({.strategy = "local", .devices = 1}, random);
  DeviceDeviation deviation{.systematic = 0.1, .drift = 0.05};
  deviation.kind.fill(0.2);
  const auto before = drawn(plan, deviation);
  for (const double c : {0.25, 3.0}) {
    planner::Plan longer = plan;
    for (model::DeviceProfile& profile : longer.profiles) profile = slowed(profile, c);
    const auto after = drawn(longer, deviation);
    for (std::size_t k = 0; k < FactorDraws::kCount; ++k)
      CHECK(after.back()[k] == doctest::Approx(c * before.back()[k]).epsilon(1e-12));
  }
}

TEST_CASE("study/intervals: what links take is the same in every draw") {
  std::mt19937 random(8);
  planner::Plan plan = plan_for({.strategy = "pipeline", .devices = 3}, random);
  // Devices that compute in no time.
  for (model::DeviceProfile& profile : plan.profiles) {
    for (model::KindRate& rate : profile.rate) {
      for (model::RatePoint& point : rate.points) point.seconds_per_byte = 0.0;
    }
  }
  const model::DrawnTimes last = drawn(plan, {.systematic = 1.0}).back();
  CHECK(last[0] > 0.0);
  CHECK(std::ranges::count(last, last[0]) == FactorDraws::kCount);
}

TEST_CASE("study/intervals: every predicted time has one, which has the time") {
  std::mt19937 random(9);
  for (const Case& of : cases()) {
    CAPTURE(of.strategy);
    CAPTURE(of.allreduce);
    CAPTURE(of.window);
    const planner::Plan plan = with_errors(plan_for(of, random), 0.1, 0.05);
    for (const auto evaluator : {study::EvaluatorKind::simgrid, study::EvaluatorKind::analytic}) {
      const study::PredictionOptions options{.evaluator = evaluator};
      const model::Result result = study::predict(plan, options).result;
      const model::LatencyStats stats = model::latency_stats(result.metrics.token_latencies_s());
      REQUIRE(result.interval_90);
      CHECK(has(result.interval_90->ttft_s, result.metrics.ttft_s));
      CHECK(has(result.interval_90->throughput_tokens_per_s,
                *result.metrics.throughput_tokens_per_s));
      REQUIRE(result.interval_90->token_latency_s);
      CHECK(has(result.interval_90->token_latency_s->mean, stats.mean));
      CHECK(has(result.interval_90->token_latency_s->p50, stats.p50));
      CHECK(has(result.interval_90->token_latency_s->p90, stats.p90));
      CHECK(has(result.interval_90->token_latency_s->p99, stats.p99));
      REQUIRE(result.requests.front().interval_90);
      CHECK(has(result.requests.front().interval_90->ttft_s, result.metrics.ttft_s));
      CHECK(has(result.requests.front().interval_90->end_s, result.requests.front().end_s));
      CHECK(width(result.interval_90->ttft_s) > 0.0);
      CHECK(result.environment.at("intervals").find("profiles measured") != std::string::npos);
      // Deterministic, and in the file.
      CHECK(study::predict(plan, options).result.interval_90 == result.interval_90);
      const model::Result read = model::parse_result_json(to_json(result), "r");
      CHECK(read.interval_90 == result.interval_90);
      CHECK(read.requests.front().interval_90 == result.requests.front().interval_90);
    }
  }
}

TEST_CASE("study/intervals: greater errors of a profile give wider ones, no profile the widest") {
  std::mt19937 random(10);
  const planner::Plan nominal = plan_for({}, random);
  const auto width_of = [](const planner::Plan& plan) {
    return width(study::predict(plan, {}).result.interval_90->ttft_s);
  };
  planner::Plan older = with_errors(nominal, 0.0, 0.0);
  for (model::DeviceProfile& profile : older.profiles) {
    profile.drift.reset();
    for (model::KindRate& rate : profile.rate) rate.error.reset();
  }
  CHECK(width_of(with_errors(nominal, 0.02, 0.01)) < width_of(with_errors(nominal, 0.2, 0.1)));
  CHECK(width_of(with_errors(nominal, 0.05, 0.02)) < width_of(older));
  CHECK(width_of(older) < width_of(nominal));
}

// Trials whose truth is drawn from what the intervals assume, by other numbers at random.
TEST_CASE("study/intervals: 90% of truths lie within, as far as chance lets") {
  constexpr int kTrials = 200;
  std::mt19937 random(11);
  const planner::Plan plan =
      with_errors(plan_for({.strategy = "tensor", .devices = 3}, random), 0.1, 0.08);
  const model::Result result =
      study::predict(plan, {.evaluator = study::EvaluatorKind::analytic}).result;
  const DeviceDeviation deviation = model::deviation_of(plan.profiles.front(), plan.model);
  std::normal_distribution<double> normal;
  int ttft = 0;
  int mean = 0;
  int end = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    planner::Plan truth = plan;
    std::array<double, model::kTaskKinds> shared{};
    const double systematic = deviation.systematic * normal(random);
    for (std::size_t k = 0; k < shared.size(); ++k)
      shared[k] = systematic + deviation.kind[k] * normal(random);
    for (model::DeviceProfile& profile : truth.profiles) {
      const double drift = deviation.drift * normal(random);
      for (std::size_t k = 0; k < shared.size(); ++k) {
        const double factor = std::exp(shared[k] + drift);
        profile.rate[k].overhead_s *= factor;
        for (model::RatePoint& point : profile.rate[k].points) point.seconds_per_byte *= factor;
      }
    }
    const model::Metrics metrics = analytic(truth);
    ttft += has(result.interval_90->ttft_s, metrics.ttft_s) ? 1 : 0;
    mean += has(result.interval_90->token_latency_s->mean,
                model::latency_stats(metrics.token_latencies_s()).mean)
                ? 1
                : 0;
    end += has(result.requests.front().interval_90->end_s, metrics.token_times_s.back()) ? 1 : 0;
  }
  // Three standard deviations of a binomial number.
  const double margin = 3.0 * std::sqrt(kTrials * 0.9 * 0.1);
  for (const int within : {ttft, mean, end}) {
    CHECK(within >= 0.9 * kTrials - margin);
    CHECK(within <= 0.9 * kTrials + margin);
  }
}

TEST_CASE("study/intervals: requests that are served have them, too") {
  std::mt19937 random(12);
  for (const Case& of : cases()) {
    if (of.window > 0) continue;
    CAPTURE(of.strategy);
    CAPTURE(of.allreduce);
    const planner::Plan plan = with_errors(plan_for(of, random), 0.1, 0.05);
    const double alone_s = study::predict(plan, {}).result.requests.front().end_s;
    std::vector<planner::InferenceRequest> requests;
    requests.reserve(4);
    for (int r = 0; r < 4; ++r)
      requests.push_back({.id = "r" + std::to_string(r),
                          .arrival_s = (r < 2 ? 0.3 : 5.0) * r * alone_s,
                          .prompt_tokens = 2,
                          .new_tokens = 3});
    const study::ServedWorkload served{.requests = requests,
                                       .policy = &planner::find_policy("sequential")};
    const model::Result result = study::predict_served(plan, served, {}).result;
    REQUIRE(result.requests.size() == requests.size());
    for (const model::RequestResult& request : result.requests) {
      CAPTURE(request.id);
      REQUIRE(request.interval_90);
      CHECK(has(request.interval_90->queueing_s, request.queueing_s));
      CHECK(has(request.interval_90->ttft_s, request.ttft_s));
      CHECK(has(request.interval_90->end_s, request.end_s));
      CHECK(width(request.interval_90->ttft_s) > 0.0);
      // None begins before it arrives, nor ends before it begins.
      CHECK(request.interval_90->queueing_s->low >= 0.0);
      CHECK(request.interval_90->end_s->low > request.arrival_s);
    }
    // The last one arrives when nothing is served: it waits in no draw.
    CHECK(result.requests.back().interval_90->queueing_s == Interval{0.0, 0.0});
    CHECK(
        has(result.interval_90->throughput_tokens_per_s, *result.metrics.throughput_tokens_per_s));
    const model::Result exact =
        study::predict_served(with_errors(plan, 0.0, 0.0), served, {}).result;
    CHECK(width(exact.requests.back().interval_90->ttft_s) <
          width(result.requests.back().interval_90->ttft_s));
  }
}

TEST_CASE("study/intervals: repetitions make what varies a part") {
  std::mt19937 random(13);
  planner::Plan plan =
      with_errors(plan_for({.strategy = "pipeline", .devices = 2}, random), 0.0, 0.0);
  std::vector<model::Link> links = plan.cluster.links();
  for (model::Link& link : links) link.jitter = model::Seconds{0.5};
  plan.cluster = model::Cluster(plan.cluster.name(), plan.cluster.devices(), plan.cluster.routers(),
                                links, plan.cluster.edges());
  const auto predicted = [&](std::int64_t count) {
    return study::predict(plan, {.repetitions = {.varies = true, .count = count}}).result;
  };
  const model::Result once = predicted(1);
  const model::Result often = predicted(12);
  CHECK(width(often.interval_90->ttft_s) > width(once.interval_90->ttft_s));
  CHECK(once.environment.at("intervals").find("--repetitions") != std::string::npos);
  CHECK(often.environment.at("intervals").find("12 repetitions") != std::string::npos);
}

}  // namespace tandem::test::intervals_test
