// How long chunks of prompts are best, by prediction.

#include "planner/serving/chunk_search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <variant>
#include <vector>

#include "model/predict/analytic.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/service_objective.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::chunk_search_test {
namespace {

std::vector<planner::InferenceRequest> lone(std::int64_t rows) {
  return planner::samples_of({.id = {}, .prompt_tokens = rows, .new_tokens = 3}, 1);
}

model::Result served(const planner::Plan& plan,
                     const std::vector<planner::InferenceRequest>& requests,
                     const planner::Policy& policy, std::int64_t chunk,
                     const planner::Capacity& capacity) {
  planner::RequestScheduler scheduler(requests, policy, {.chunk = chunk, .capacity = capacity});
  planner::GraphCache graphs(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  model::Result result;
  planner::fill_requests(requests, recorder.served(), result);
  return result;
}

double first_token(const planner::Plan& plan,
                   const std::vector<planner::InferenceRequest>& requests,
                   const planner::Policy& policy, std::int64_t chunk,
                   const planner::Capacity& capacity) {
  return served(plan, requests, policy, chunk, capacity).requests.front().ttft_s;
}

double first_token(const planner::Plan& plan, std::int64_t rows, std::int64_t chunk) {
  const auto requests = lone(rows);
  const planner::Policy& policy = planner::find_policy("recurrent");
  return first_token(plan, requests, policy, chunk,
                     planner::wanted_capacity(requests, policy, chunk, 16));
}

double service_seconds(const planner::Plan& plan,
                       const std::vector<planner::InferenceRequest>& requests,
                       const planner::Policy& policy, std::int64_t chunk,
                       planner::Objective objective) {
  return planner::service_time(served(plan, requests, policy, chunk, plan.reserved()), objective);
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
    CHECK(planner::best_chunk(plan, lone(48), planner::find_policy("recurrent"),
                              planner::Objective::ttft, 0) == chunk);
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

TEST_CASE("planner/chunk: as many chunks are in flight as bring the first token earliest") {
  const planner::Policy& policy = planner::find_policy("continuous");
  int more = 0;
  for (const double speed : {1e5, 1e6, 1e7}) {
    for (const std::int64_t chunk : {1, 3, 12}) {
      CAPTURE(speed);
      CAPTURE(chunk);
      const auto answer =
          planner::make_plan_in_flight(request_for(speed), lone(48), policy, chunk, 0);
      REQUIRE(std::holds_alternative<planner::Plan>(answer));
      const auto& plan = std::get<planner::Plan>(answer);
      const auto seconds = [&](std::int64_t steps) {
        planner::Capacity capacity = plan.reserved();
        capacity.steps = steps;
        return first_token(plan, lone(48), policy, chunk, capacity);
      };
      const std::int64_t found = plan.reserved().steps;
      const std::int64_t most = planner::most_in_flight(lone(48), chunk);
      CHECK(found >= std::min<std::int64_t>(4, most));
      CHECK(found <= most);
      CHECK(seconds(found) <= seconds(most) * 1.002);
      // No more than that takes.
      if (found > 4) CHECK(seconds(found - 1) > seconds(most) * 1.0005);
      more += found > 4 ? 1 : 0;
    }
  }
  CHECK(more > 0);
}

// A little less memory than 16 steps in flight need, and a little less than one step needs.
TEST_CASE("planner/chunk: steps in flight are as many as fit") {
  const planner::Policy& policy = planner::find_policy("continuous");
  planner::Request request = request_for(1e7);
  const auto peak = [&](std::int64_t steps) {
    const auto answer = planner::make_plan_in_flight(request, lone(48), policy, 3, steps);
    double most = 0.0;
    for (const planner::DevicePlan& device : std::get<planner::Plan>(answer).devices)
      most = std::max(most, device.memory.total());
    return most;
  };
  REQUIRE(peak(16) > peak(8));
  REQUIRE(peak(8) > peak(4));
  const double of_8 = peak(8);
  const double of_4 = peak(4);
  const auto steps_within = [&](double bytes) {
    request.memory_limit = model::Bytes{bytes};
    const auto answer = planner::make_plan_in_flight(request, lone(48), policy, 3, 0);
    REQUIRE(std::holds_alternative<planner::Plan>(answer));
    return std::get<planner::Plan>(answer).reserved().steps;
  };
  CHECK(steps_within(of_8) <= 8);
  CHECK(steps_within(of_4) == 4);
}

TEST_CASE("planner/chunk: the longest step that fits is asked for, the shortest first") {
  for (const std::int64_t prompt : {1, 2, 5, 64, 65, 600, 5000}) {
    for (std::int64_t most = 0; most <= 1200; most = most * 2 + (most < 8 ? 1 : 3)) {
      CAPTURE(prompt);
      CAPTURE(most);
      std::int64_t expected = 0;
      for (std::int64_t rows = 1; rows <= 512; rows *= 2) {
        if (rows < prompt && rows <= most) expected = rows;
      }
      std::vector<std::int64_t> asked;
      const auto fits = [&](std::int64_t rows) {
        asked.push_back(rows);
        return rows <= most;
      };
      CHECK(planner::longest_fitting_step(prompt, fits) == expected);
      if (most == 0) CHECK(asked.size() <= 1);
    }
  }
}

// Requests whose prompts hold up each other's new tokens.
TEST_CASE("planner/chunk: the chunk of many requests is found by the objective") {
  const std::vector<planner::InferenceRequest> requests =
      planner::samples_of({.id = {}, .prompt_tokens = 32, .new_tokens = 12}, 8);
  const planner::Policy& policy = planner::find_policy("continuous");
  int chunked = 0;
  for (const auto objective : {planner::Objective::throughput, planner::Objective::request,
                               planner::Objective::ttft, planner::Objective::latency}) {
    for (const double speed : {1e5, 1e7}) {
      CAPTURE(planner::to_string(objective));
      CAPTURE(speed);
      planner::Request request = request_for(speed);
      request.objective = objective;
      const auto answer = planner::make_chunked_plan(request, requests, policy, 0);
      REQUIRE(std::holds_alternative<planner::ChunkedPlan>(answer));
      const auto& [plan, chunk] = std::get<planner::ChunkedPlan>(answer);
      chunked += chunk > 0 ? 1 : 0;
      for (const std::int64_t rows : {0, 1, 2, 4, 8, 16}) {
        CAPTURE(rows);
        const auto other = planner::make_serving_plan(request, requests, policy, rows);
        REQUIRE(std::holds_alternative<planner::Plan>(other));
        CHECK(service_seconds(plan, requests, policy, chunk, objective) <=
              service_seconds(std::get<planner::Plan>(other), requests, policy, rows, objective) *
                  1.01);
      }
    }
  }
  CHECK(chunked > 2);
}

}  // namespace tandem::test::chunk_search_test
