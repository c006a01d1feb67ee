// The chunk and the steps in flight of a plan for requests, by prediction.

#include "planner/serving/service_search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/predict/analytic.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/service_objective.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::service_search_test {
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

planner::Service service_for(const std::vector<planner::InferenceRequest>& requests,
                             const planner::Policy& policy,
                             planner::Objective objective = planner::Objective::ttft) {
  return {.requests = requests,
          .policy = policy,
          .seconds = planner::analytic_clock(requests, policy, objective)};
}

planner::ServicePlan made(const planner::Request& request, const planner::Service& service) {
  auto answer = planner::make_service_plan(request, service);
  REQUIRE(std::holds_alternative<planner::ServicePlan>(answer));
  return std::get<planner::ServicePlan>(std::move(answer));
}

planner::Request request_for(double speed) {
  return {.model = small_model({.layers = 8}),
          .cluster = star_cluster({{speed}, {speed}, {speed}, {speed}}),
          .strategy = "pipeline",
          .partition = "equal",
          .workload = {.prompt_tokens = 48, .new_tokens = 3}};
}

}  // namespace

TEST_CASE("planner/service: the chunk that is found is as good as any, on fast and slow devices") {
  for (const double speed : {1e4, 1e5, 1e6, 1e7}) {
    CAPTURE(speed);
    const planner::Policy& policy = planner::find_policy("recurrent");
    const auto requests = lone(48);
    const auto [plan, chunk] = made(request_for(speed), service_for(requests, policy));
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t rows = 0; rows <= 48; ++rows)
      least = std::min(least, first_token(plan, 48, rows));
    const double found = first_token(plan, requests, policy, chunk, plan.reserved());
    CHECK(found <= least * 1.001);
    // Four stages in turn become nearly one's share, where computing is what takes time.
    if (speed < 1e5) CHECK(first_token(plan, 48, chunk) < 0.4 * first_token(plan, 48, 0));
    // The plan has room for it, and says so again.
    CHECK(plan.reserved().steps > 1);
    const std::int64_t again = planner::reserved_chunk(plan, requests, policy, 0);
    CHECK(first_token(plan, requests, policy, again, plan.reserved()) <= found * 1.001);
  }
}

TEST_CASE("planner/service: prompts are read whole where nothing is gained") {
  planner::Request request = request_for(1e5);
  request.strategy = "tensor";
  const auto requests = lone(48);
  CHECK(made(request, service_for(requests, planner::find_policy("continuous"))).chunk == 0);
}

TEST_CASE("planner/service: as many chunks are in flight as bring the first token earliest") {
  const planner::Policy& policy = planner::find_policy("continuous");
  const auto requests = lone(48);
  std::set<std::int64_t> found;
  for (const double speed : {1e5, 1e6, 1e7}) {
    for (const std::int64_t chunk : {1, 3, 12}) {
      CAPTURE(speed);
      CAPTURE(chunk);
      planner::Service service = service_for(requests, policy);
      service.chunk = chunk;
      const planner::Plan plan = made(request_for(speed), service).plan;
      const std::int64_t most = planner::most_in_flight(requests, chunk);
      const std::int64_t steps = *found.insert(plan.reserved().steps).first;
      CHECK(steps <= most);
      const auto seconds = [&](std::int64_t others) {
        planner::Capacity capacity = plan.reserved();
        capacity.steps = others;
        return first_token(plan, requests, policy, chunk, capacity);
      };
      for (std::int64_t others = 1; others <= most; ++others) {
        CAPTURE(others);
        CHECK(seconds(steps) <= seconds(others) * (1.0 + 3e-4));
      }
    }
  }
  CHECK(found.size() > 2);
}

// Whatever the times are: of eight requests' steps none is better than those that are found.
TEST_CASE("planner/service: steps of many requests are found by the objective") {
  const std::vector<planner::InferenceRequest> requests =
      planner::samples_of({.id = {}, .prompt_tokens = 32, .new_tokens = 12}, 8);
  std::set<std::int64_t> found;
  for (const auto objective : {planner::Objective::throughput, planner::Objective::request,
                               planner::Objective::ttft, planner::Objective::latency}) {
    for (const std::string name : {"continuous", "recurrent", "static"}) {
      for (const double speed : {1e5, 1e7}) {
        CAPTURE(planner::to_string(objective));
        CAPTURE(name);
        CAPTURE(speed);
        const planner::Policy& policy = planner::find_policy(name);
        planner::Service service = service_for(requests, policy, objective);
        service.chunk = 0;
        const planner::Plan plan = made(request_for(speed), service).plan;
        const std::int64_t steps = *found.insert(plan.reserved().steps).first;
        for (std::int64_t others = 1; others <= 8; ++others) {
          CAPTURE(others);
          const auto other =
              planner::make_serving_plan(request_for(speed), requests, policy, 0, others);
          REQUIRE(std::holds_alternative<planner::Plan>(other));
          CHECK(service.seconds(plan, 0) <=
                service.seconds(std::get<planner::Plan>(other), 0) * (1.0 + 3e-4));
          planner::Service given = service;
          given.steps = others;
          CHECK(made(request_for(speed), given).plan.reserved().steps == others);
        }
        CHECK(steps >= 1);
      }
    }
  }
  CHECK(found.size() > 2);
}

// A little less memory than 16 steps in flight need, and a little less than one step needs.
TEST_CASE("planner/service: steps in flight are as many as fit") {
  const planner::Policy& policy = planner::find_policy("continuous");
  planner::Request request = request_for(1e7);
  const auto peak = [&](std::int64_t steps) {
    const auto answer = planner::make_serving_plan(request, lone(48), policy, 3, steps);
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
    const auto requests = lone(48);
    planner::Service service = service_for(requests, policy);
    service.chunk = 3;
    return made(request, service).plan.reserved().steps;
  };
  CHECK(steps_within(of_8) <= 8);
  CHECK(steps_within(of_4) <= 4);
}

// Requests whose prompts hold up each other's new tokens.
TEST_CASE("planner/service: the chunk of many requests is found by the objective") {
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
      const auto [plan, chunk] = made(request, service_for(requests, policy, objective));
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

}  // namespace tandem::test::service_search_test
