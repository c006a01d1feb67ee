#include "advice/prediction.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <variant>
#include <vector>

#include "model/base/error.hpp"
#include "planner/search/search.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::prediction_test {
namespace {

planner::Plan small_plan(double jitter_s = 0.0) {
  model::Cluster cluster = star_cluster({{}, {}});
  std::vector<model::Link> links = cluster.links();
  for (model::Link& link : links) link.jitter = model::Seconds{jitter_s};
  cluster = model::Cluster(cluster.name(), cluster.devices(), cluster.routers(), std::move(links),
                           cluster.edges());
  return std::get<planner::Plan>(
      planner::make_plan({.model = small_model({}),
                          .cluster = cluster,
                          .workload = {.prompt_tokens = 4, .new_tokens = 5}}));
}

}  // namespace

TEST_CASE("study/prediction: both evaluators say the same where nothing contends") {
  const planner::Plan plan = small_plan();
  const model::Result simgrid = study::predict(plan, {}).result;
  const model::Result analytic =
      study::predict(plan, {.evaluator = study::EvaluatorKind::analytic}).result;
  CHECK(simgrid.evaluator == "simgrid");
  CHECK(analytic.evaluator == "analytic");
  CHECK(simgrid.metrics.ttft_s == doctest::Approx(analytic.metrics.ttft_s).epsilon(1e-9));
  CHECK(simgrid.metrics.token_times_s.size() == 5);
  CHECK(simgrid.requests.size() == 1);
}

TEST_CASE("study/prediction: a timeline has spans, and its records count as memory") {
  const planner::Plan plan = small_plan();
  const study::Prediction bare = study::predict(plan, {});
  const study::Prediction traced = study::predict(plan, {.timeline = true});
  CHECK(bare.trace.spans.empty());
  CHECK_FALSE(traced.trace.spans.empty());
  CHECK(traced.result.devices.at(0).peak_memory.program >
        bare.result.devices.at(0).peak_memory.program);
}

TEST_CASE("study/prediction: repetitions have seeds of their own, and their spread is told") {
  const planner::Plan plan = small_plan(1e-4);
  const study::PredictionOptions options{.repetitions = {.varies = true, .seed = 7, .count = 3}};
  const model::Result result = study::predict(plan, options).result;
  CHECK(result.environment.at("seed") == "7");
  CHECK(result.environment.at("repetitions") == "3");
  CHECK(result.environment.contains("repetitions: time to first token, s"));
  CHECK(study::predict(plan, options).result.environment == result.environment);
}

TEST_CASE("study/prediction: what a token waits for sums to its time") {
  const planner::Plan plan = small_plan();
  const model::Bottleneck found = study::bottleneck_of(plan, study::EvaluatorKind::analytic);
  double sum = 0.0;
  for (const model::Waiting& waiting : found.prompt) sum += waiting.seconds;
  const model::Result result = study::predict(plan, {}).result;
  CHECK(sum == doctest::Approx(result.metrics.ttft_s).epsilon(1e-6));
  CHECK_FALSE(found.token.empty());
}

// Whatever is waited for: lanes, messages that queue or contend, disks, in both evaluators.
TEST_CASE("study/prediction: what tokens wait for sums to their times, for every way of sharing") {
  std::mt19937 random(31);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const auto sum = [](const std::vector<model::Waiting>& all) {
    double seconds = 0.0;
    for (const model::Waiting& waiting : all) seconds += waiting.seconds;
    return seconds;
  };
  int streams = 0;
  for (const std::string strategy : {"tensor", "pipeline", "local"}) {
    for (const std::string allreduce : {"star", "tree:2", "tree:3", "ring", "star,ring"}) {
      if (strategy != "tensor" && allreduce != "star") continue;
      for (int again = 0; again < 6; ++again) {
        const int devices = strategy == "local" ? 1 : draw(2, 4);
        std::vector<DeviceSpec> specs;
        for (int d = 0; d < devices; ++d)
          specs.push_back({.flops_per_s = draw(1, 40) * 1e6,
                           .memory_bytes = 1e12,
                           .disk_bytes_per_s = draw(1, 50) * 1e4});
        const std::int32_t window = again % 2 == 0 ? 0 : draw(1, 3);
        const auto answer = planner::make_plan(
            {.model = small_model({.layers = 4, .heads = 8, .kv_heads = 8, .intermediate = 12}),
             .cluster = star_cluster(specs),
             .strategy = strategy,
             .partition = strategy == "local" ? "auto" : "equal",
             .allreduce = allreduce,
             .workload = {.prompt_tokens = draw(1, 9), .new_tokens = draw(1, 3)},
             .window = {.blocks = window}});
        REQUIRE(std::holds_alternative<planner::Plan>(answer));
        const auto& plan = std::get<planner::Plan>(answer);
        streams += window > 0 ? 1 : 0;
        for (const auto evaluator :
             {study::EvaluatorKind::analytic, study::EvaluatorKind::simgrid}) {
          CAPTURE(strategy);
          CAPTURE(allreduce);
          CAPTURE(devices);
          CAPTURE(window);
          CAPTURE(study::to_string(evaluator));
          const model::Metrics metrics =
              study::predict(plan, {.evaluator = evaluator, .every_step = true}).result.metrics;
          const model::Bottleneck found = study::bottleneck_of(plan, evaluator);
          CHECK(sum(found.prompt) == doctest::Approx(metrics.ttft_s).epsilon(1e-9));
          for (const model::Waiting& waiting : found.prompt) CHECK(waiting.seconds >= 0.0);
          for (const model::Waiting& waiting : found.token) CHECK(waiting.seconds >= 0.0);
          REQUIRE(found.token.empty() == (plan.workload.new_tokens < 2));
          if (found.token.empty()) continue;
          CHECK(sum(found.token) == doctest::Approx(metrics.token_latencies_s()[0]).epsilon(1e-9));
        }
      }
    }
  }
  CHECK(streams > 10);
}

}  // namespace tandem::test::prediction_test
