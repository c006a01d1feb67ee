// Runs that a scheduler drives, on SimGrid and analytically.

#include <doctest/doctest.h>

#include <random>

#include "model/analytic.hpp"
#include "planner/graph_cache.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner_fixture.hpp"
#include "sim/replay.hpp"

namespace tandem::test {
namespace {

using planner::InferenceRequest;

TEST_CASE("sim/served: SimGrid and the analytic evaluator serve alike, to 1e-9") {
  std::mt19937 random(11);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int round = 0; round < 60; ++round) {
    const planner::Plan plan = pipeline_of(draw(2, 5));
    const int steps = draw(1, 5);
    std::vector<InferenceRequest> requests;
    double arrival = 0.0;
    for (int i = draw(1, 5); i > 0; --i) {
      requests.push_back({.id = std::string("r").append(std::to_string(i)),
                          .arrival_s = arrival,
                          .prompt_tokens = draw(1, 20),
                          .new_tokens = draw(1, 10)});
      if (draw(0, 3) > 0) arrival += draw(1, 40) * 1e-2;
    }
    const std::int64_t chunk = draw(0, 1) == 0 ? 0 : draw(1, 6);
    for (const planner::Policy& policy : planner::policies()) {
      CAPTURE(round);
      CAPTURE(policy.name);
      CAPTURE(chunk);
      CAPTURE(steps);
      const planner::ServingOptions options{
          .chunk = chunk, .capacity = planner::wanted_capacity(requests, policy, chunk, steps)};
      planner::RequestScheduler one(requests, policy, options);
      planner::RequestScheduler other(requests, policy, options);
      planner::GraphCache graphs(plan);
      model::RunRecorder analytic(plan.cluster, plan.master, false);
      model::RunRecorder simgrid(plan.cluster, plan.master, false);
      model::evaluate_scheduled(plan.cluster, plan.cost_model(), one, graphs, analytic);
      sim::replay_scheduled(plan.cluster, plan.cost_model(), other, graphs, simgrid);
      REQUIRE(simgrid.served().size() == analytic.served().size());
      for (std::size_t s = 0; s < simgrid.served().size(); ++s) {
        CHECK(simgrid.served()[s].step.batch.segments == analytic.served()[s].step.batch.segments);
        CHECK(simgrid.served()[s].step.ended == analytic.served()[s].step.ended);
        CHECK(simgrid.served()[s].step.not_before_s ==
              doctest::Approx(analytic.served()[s].step.not_before_s).epsilon(1e-9));
        REQUIRE(simgrid.served()[s].sampled_s.size() == analytic.served()[s].sampled_s.size());
        for (std::size_t i = 0; i < simgrid.served()[s].sampled_s.size(); ++i)
          CHECK(simgrid.served()[s].sampled_s[i] ==
                doctest::Approx(analytic.served()[s].sampled_s[i]).epsilon(1e-9));
      }
      CHECK(simgrid.devices()[0].bytes_sent == analytic.devices()[0].bytes_sent);
    }
  }
}

// Four requests of one prompt token that come at once; tokens a second over all.
double rate(const planner::Plan& plan, std::size_t sequences, std::int64_t steps) {
  const std::vector<InferenceRequest> requests = [&] {
    std::vector<InferenceRequest> all;
    for (std::size_t i = 0; i < sequences; ++i)
      all.push_back({.id = std::to_string(i), .prompt_tokens = 1, .new_tokens = 60});
    return all;
  }();
  const planner::Policy& policy = planner::find_policy("continuous");
  planner::RequestScheduler scheduler(
      requests, policy, {.capacity = planner::wanted_capacity(requests, policy, 0, steps)});
  planner::GraphCache graphs(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  sim::replay_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  model::Result result;
  planner::fill_requests(requests, recorder.served(), result);
  return *result.metrics.throughput_tokens_per_s;
}

TEST_CASE("sim/served: four steps in flight on four devices are three times as fast as one") {
  const planner::Plan plan = pipeline_of(4);
  const double one = rate(plan, 1, 1);
  CHECK(rate(plan, 4, 4) >= 3.0 * one);
  CHECK(rate(plan, 2, 2) >= 1.7 * one);
  CHECK(rate(plan, 4, 1) < rate(plan, 4, 4));
}

}  // namespace
}  // namespace tandem::test
