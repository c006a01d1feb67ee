// Runs that a scheduler drives, on SimGrid and analytically.

#include <doctest/doctest.h>

#include <random>

#include "model/analytic.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/shape_cache.hpp"
#include "planner_fixture.hpp"
#include "sim/replay.hpp"

namespace tandem::test {
namespace {

using planner::InferenceRequest;

// Stages, so that no two messages are on a link at once.
planner::Plan three_stages() {
  planner::Plan plan =
      plan_of("tensor", {.layers = 3}, 0, {.heads = {2, 1, 1}, .columns = {2, 2, 2}});
  plan.strategy = "pipeline";
  plan.allreduce = {};
  plan.layout = {};
  for (std::int32_t d = 0; d < 3; ++d) {
    plan.devices[static_cast<std::size_t>(d)].share = {.layers = {d, d + 1},
                                                       .heads = {0, 4},
                                                       .columns = {0, 6},
                                                       .embedding = d == 0,
                                                       .head = d == 0};
  }
  plan.validate();
  return plan;
}

TEST_CASE("sim/served: SimGrid and the analytic evaluator serve alike, to 1e-9") {
  std::mt19937 random(11);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const planner::Plan plan = three_stages();
  for (int round = 0; round < 40; ++round) {
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
      const planner::ServingOptions options{
          .chunk = chunk, .capacity = planner::wanted_capacity(requests, policy, chunk)};
      planner::RequestScheduler one(requests, policy, options);
      planner::RequestScheduler other(requests, policy, options);
      planner::ShapeCache graphs(plan);
      model::RunRecorder analytic(plan.cluster, plan.master, false);
      model::RunRecorder simgrid(plan.cluster, plan.master, false);
      model::evaluate_scheduled(plan.cluster, plan.cost_model(), one, graphs, analytic);
      sim::replay_scheduled(plan.cluster, plan.cost_model(), other, graphs, simgrid);
      REQUIRE(simgrid.served().size() == analytic.served().size());
      for (std::size_t s = 0; s < simgrid.served().size(); ++s) {
        CHECK(simgrid.served()[s].step.batch.segments == analytic.served()[s].step.batch.segments);
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

}  // namespace
}  // namespace tandem::test
