// How long chunks of prompts are best, by prediction.

#include "planner/serving/chunk_search.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <variant>
#include <vector>

#include "model/predict/analytic.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::chunk_search_test {
namespace {

std::vector<planner::InferenceRequest> lone(std::int64_t rows) {
  return planner::samples_of({.id = {}, .prompt_tokens = rows, .new_tokens = 3}, 1);
}

double first_token(const planner::Plan& plan, std::int64_t rows, std::int64_t chunk) {
  const auto requests = lone(rows);
  const planner::Policy& policy = planner::find_policy("recurrent");
  planner::RequestScheduler scheduler(
      requests, policy,
      {.chunk = chunk, .capacity = planner::wanted_capacity(requests, policy, chunk, 16)});
  planner::GraphCache graphs(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  return planner::request_results(requests, recorder.served()).front().ttft_s;
}

planner::Request request_for(double speed) {
  return {.model = small_model({.layers = 8}),
          .cluster = star_cluster({{speed}, {speed}, {speed}, {speed}}),
          .strategy = "pipeline",
          .partition = "equal",
          .workload = {.prompt_tokens = 48, .new_tokens = 3}};
}

}  // namespace

TEST_CASE("planner/chunk: the chunk that is found is as good as any, on fast and slow devices") {
  for (const double speed : {1e4, 1e5, 1e6, 1e7}) {
    CAPTURE(speed);
    const auto answer = planner::make_chunked_plan(request_for(speed), lone(48),
                                                   planner::find_policy("recurrent"), 0);
    REQUIRE(std::holds_alternative<planner::ChunkedPlan>(answer));
    const auto& [plan, chunk] = std::get<planner::ChunkedPlan>(answer);
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t rows = 0; rows <= 48; ++rows)
      least = std::min(least, first_token(plan, 48, rows));
    CHECK(first_token(plan, 48, chunk) <= least * 1.01);
    // Four stages in turn become nearly one's share, where computing is what takes time.
    if (speed < 1e5) CHECK(first_token(plan, 48, chunk) < 0.4 * first_token(plan, 48, 0));
    // The plan has room for it, and says so again.
    CHECK(plan.reserved().steps > 1);
    CHECK(planner::best_chunk(plan, lone(48), planner::find_policy("recurrent"), 0) == chunk);
  }
}

TEST_CASE("planner/chunk: prompts are read whole where nothing is gained") {
  planner::Request request = request_for(1e5);
  request.strategy = "tensor";
  const auto answer =
      planner::make_chunked_plan(request, lone(48), planner::find_policy("continuous"), 0);
  REQUIRE(std::holds_alternative<planner::ChunkedPlan>(answer));
  CHECK(std::get<planner::ChunkedPlan>(answer).chunk == 0);
}

}  // namespace tandem::test::chunk_search_test
