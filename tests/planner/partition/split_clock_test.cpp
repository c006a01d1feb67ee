#include "planner/partition/split_clock.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "model/predict/program.hpp"
#include "model/transformer/architecture.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/random_clusters.hpp"

namespace tandem::test::split_clock_test {
namespace {

using model::ActionIndex;
using model::DeviceIndex;
using model::LaneKind;
using model::TaskKind;
using planner::Plan;
using planner::Split;
using planner::SplitClock;

constexpr std::int32_t kMiddle = 1;

// When a step's result is there, if one action takes `more` seconds longer: actions one by one, by
// the rules of model/predict/analytic.hpp.
double end_of_result(const Plan& plan, const model::TaskGraph& graph, const model::Program& program,
                     ActionIndex delayed, double more) {
  const model::CostModel costs = plan.cost_model();
  std::map<std::tuple<LaneKind, DeviceIndex, DeviceIndex>, double> free;
  std::vector<double> done;
  double sampled = -1.0;
  double passed = 0.0;
  for (ActionIndex i = 0; i < program.size(); ++i) {
    const model::LaneAction& action = program.actions()[static_cast<std::size_t>(i)];
    const model::ActionCost cost = model::action_cost(plan.cluster, costs, graph, action);
    double& lane = free[{action.lane, action.device, action.peer}];
    double start = lane;
    for (const ActionIndex d : program.dependencies(i))
      start = std::max(start, done[static_cast<std::size_t>(d)]);
    lane = start + cost.seconds + (i == delayed ? more : 0.0);
    double flight = 0.0;
    if (action.lane == LaneKind::channel) {
      const model::Route& route = plan.cluster.route(action.device, action.peer);
      lane += cost.bytes / route.bandwidth.value();
      flight = route.latency.value();
    }
    done.push_back(lane + flight);
    if (action.kind == TaskKind::sample) sampled = std::max(sampled, done.back());
    if (action.lane == LaneKind::cpu && action.device == plan.master)
      passed = std::max(passed, done.back());
  }
  return sampled < 0.0 ? passed : sampled;
}

// How much later an action can end without delaying the result: by trying.
double tried_slack(const Plan& plan, const model::TaskGraph& graph, const model::Program& program,
                   ActionIndex action) {
  const double end = end_of_result(plan, graph, program, action, 0.0);
  double good = 0.0;
  double late = 2.0 * end;
  for (int i = 0; i < 60; ++i) {
    const double more = (good + late) / 2.0;
    const bool harmless = end_of_result(plan, graph, program, action, more) <= end * (1.0 + 1e-13);
    (harmless ? good : late) = more;
  }
  return good;
}

// A plan for a model of 3 layers and random devices. Messages cost computing threads what copies at
// memory's bandwidth take.
Plan random_plan(RandomClusters& draw, model::Family family, const std::string& allreduce) {
  const auto devices = static_cast<int>(draw.integer(2, 4));
  planner::Request request{.model = small_model({.layers = 3,
                                                 .heads = 8,
                                                 .kv_heads = 8,
                                                 .head_dim = 8,
                                                 .intermediate = 200,
                                                 .vocab = 100}),
                           .cluster = draw.cluster(devices, 1e12, 1e12),
                           .workload = {}};
  request.model.family = family;
  const bool generates = request.model.architecture().generates();
  request.workload = {.prompt_tokens = draw.integer(2, 40), .new_tokens = generates ? 3 : 0};
  request.strategy = "tensor";
  request.allreduce = allreduce;
  return std::get<Plan>(planner::make_plan(request));
}

}  // namespace

TEST_CASE(
    "planner/split clock: what a block can be late is what trying it shows, messages and all") {
  RandomClusters draw(20);
  for (int attempt = 0; attempt < 20; ++attempt) {
    CAPTURE(attempt);
    Plan plan = random_plan(draw, attempt % 4 < 2 ? model::Family::llama : model::Family::bert,
                            attempt % 2 == 0 ? "star" : "ring");
    const auto devices = static_cast<std::size_t>(plan.cluster.size());
    Split split{.heads = std::vector<std::int64_t>(devices, 1),
                .columns = std::vector<std::int64_t>(devices, 10)};
    split.heads[0] += plan.model.heads - static_cast<std::int64_t>(devices);
    split.columns.back() += plan.model.intermediate - 10 * static_cast<std::int64_t>(devices);
    const planner::Budget budget(plan, std::vector<double>(devices, 4e3));
    SplitClock clock(budget);
    const SplitClock::Measured measured = clock.measure(split);
    CHECK(std::isfinite(measured.time));
    CHECK(measured.time == doctest::Approx(clock.time(split)).epsilon(1e-12));

    plan.devices.clear();
    for (const model::Share& share : planner::to_shares(plan.model, plan.master, split))
      plan.devices.push_back({.share = share, .memory = {}});
    const model::TaskGraph graph =
        planner::find_strategy("tensor").lower(plan, planner::prompt_batch(plan.workload));
    const model::Program program(graph);
    CHECK(program.size() > graph.size());
    const planner::Race heads = clock.heads(measured);
    const planner::Race columns = clock.columns(measured);
    for (ActionIndex i = 0; i < program.size(); ++i) {
      const model::LaneAction& action = program.actions()[static_cast<std::size_t>(i)];
      const bool attention = action.kind == TaskKind::project_out;
      if (action.layer != kMiddle || (!attention && action.kind != TaskKind::ffn_down)) continue;
      const auto d = static_cast<std::size_t>(action.device);
      CAPTURE(d);
      const planner::Race& race = attention ? heads : columns;
      const double slack =
          race.limit[0][d] - race.time(0, d, attention ? split.heads[d] : split.columns[d]);
      const double tried = tried_slack(plan, graph, program, i);
      CHECK(std::abs(slack - tried) <= 1e-9 * measured.time);
    }
  }
}

}  // namespace tandem::test::split_clock_test
