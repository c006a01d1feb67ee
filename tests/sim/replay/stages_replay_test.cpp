// Pipelines of several rounds, and of groups of devices, on SimGrid.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/stages.hpp"
#include "sim/replay/replay.hpp"
#include "tests/sim/random_simulations.hpp"
#include "tests/support/recurrent_fixture.hpp"

namespace tandem::sim::testing::stages_replay_test {
namespace {

// A pipeline on devices that share no link, its shares by the dice.
planner::Request random_request(Dice& dice, int devices) {
  const model::Cluster cluster = random_cluster(dice, devices);
  model::Transformer model = small_llama();
  model.layers = dice.in(6, 9);
  std::vector<model::DeviceProfile> profiles;
  for (const model::Device& device : cluster.devices()) {
    model::DeviceProfile profile =
        model::slowed(model::nominal_profile(device), dice.scale(0.2, 5.0));
    for (auto& rate : profile.rate)
      rate.overhead_s = dice.in(0, 2) == 0 ? dice.scale(1e-7, 1e-3) : 0;
    profiles.push_back(profile);
  }
  return {.model = model,
          .cluster = cluster,
          .strategy = "pipeline",
          .partition = "equal",
          .workload = {.prompt_tokens = dice.in(1, 12), .new_tokens = 3},
          .profiles = profiles};
}

planner::Plan made(const planner::Request& request) {
  auto answer = planner::make_plan(request);
  REQUIRE(std::holds_alternative<planner::Plan>(answer));
  return std::get<planner::Plan>(std::move(answer));
}

void check_alike(const planner::Plan& plan) {
  planner::GenerationSteps steps(plan);
  const Spans first = analytic(plan.cluster, plan.cost_model(), steps, Copies::with);
  planner::GenerationSteps again(plan);
  CHECK(differences(first, simulated(plan.cluster, plan.cost_model(), again, Copies::with)) == 0);
  CHECK(makespan(first) > 0.0);
}

std::string random_groups(Dice& dice, int devices) {
  std::vector<std::vector<int>> groups(1, {0});
  for (int d = 1; d < devices; ++d) {
    if (dice.in(0, 2) == 0) groups.emplace_back();
    groups[static_cast<std::size_t>(dice.in(0, static_cast<int>(groups.size()) - 1))].push_back(d);
  }
  std::string text;
  for (const std::vector<int>& group : groups) {
    if (group.empty()) continue;
    text += text.empty() ? "" : "/";
    for (const int d : group)
      text += (text.empty() || text.back() == '/' ? "d" : ",d") + std::to_string(d);
  }
  return text;
}

}  // namespace

TEST_CASE("sim/stages: rounds with windows have the spans of the analytic evaluator, to 1e-9") {
  int streamed = 0;
  int several = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Dice dice(seed);
    planner::Request request = random_request(dice, dice.in(2, 4));
    request.rounds = dice.in(2, 4);
    request.window = {.blocks = dice.in(0, 3), .retain = dice.in(0, 1) * 2};
    if (request.window.blocks == 0) request.window.retain = 0;
    const planner::Plan plan = made(request);
    several += planner::has_rounds(plan) ? 1 : 0;  // of few layers runs may touch
    streamed += plan.devices[0].window.streams() ? 1 : 0;
    check_alike(plan);
  }
  CHECK(several > 30);
  CHECK(streamed > 10);
}

TEST_CASE("sim/stages: groups have the spans of the analytic evaluator, to 1e-9") {
  int grouped = 0;
  int by_rows = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Dice dice(100 + seed);
    const int devices = dice.in(2, 6);
    planner::Request request = random_request(dice, devices);
    request.groups = random_groups(dice, devices);
    CAPTURE(request.groups);
    const std::vector<std::string> sums{"star", "ring", "tree,halving", "hierarchical"};
    request.allreduce = sums[static_cast<std::size_t>(dice.in(0, 3))];
    request.window.blocks = dice.in(0, 2);
    if (dice.in(0, 1) == 0 && request.groups.find(',') != std::string::npos) {
      request.group_strategy = "galaxy";
      request.tiles = dice.in(0, 2);
    }
    by_rows += request.group_strategy.empty() ? 0 : 1;
    const planner::Plan plan = made(request);
    grouped += planner::has_groups(plan) ? 1 : 0;
    check_alike(plan);
  }
  CHECK(grouped > 25);
  CHECK(by_rows > 8);
}

TEST_CASE("sim/stages: samples go round groups when the analytic evaluator says, to 1e-9") {
  int grouped = 0;
  for (unsigned seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Dice dice(200 + seed);
    const int devices = dice.in(2, 5);
    planner::Request request = random_request(dice, devices);
    request.groups = random_groups(dice, devices);
    CAPTURE(request.groups);
    request.allreduce = dice.in(0, 1) == 0 ? "star" : "ring";
    request.capacity = {.rows = 12, .positions = 4096, .sequences = 4, .steps = 4};
    const planner::Plan plan = made(request);
    grouped += planner::has_groups(plan) ? 1 : 0;
    const auto ends = [&](const auto& evaluate) {
      test::RoundAndRound scheduler(4, test::kRingPast, 20);
      model::RunRecorder recorder(plan.cluster, plan.master, false);
      planner::GraphCache graphs(plan);
      evaluate(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
      return test::token_ends(recorder);
    };
    const std::vector<double> first =
        ends([](auto&&... all) { model::evaluate_scheduled(all...); });
    const std::vector<double> second = ends([](auto&&... all) { replay_scheduled(all...); });
    REQUIRE(first.size() == 20);
    REQUIRE(second.size() == 20);
    for (std::size_t i = 0; i < 20; ++i) CHECK(same(first[i], second[i]));
  }
  CHECK(grouped > 15);
}

}  // namespace tandem::sim::testing::stages_replay_test
