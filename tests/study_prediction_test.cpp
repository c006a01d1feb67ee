#include <doctest/doctest.h>

#include <variant>

#include "model/error.hpp"
#include "planner/search.hpp"
#include "planner_fixture.hpp"
#include "study/prediction.hpp"

namespace tandem::test {
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

}  // namespace tandem::test
