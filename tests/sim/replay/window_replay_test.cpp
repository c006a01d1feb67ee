// Plans with windows: SimGrid, the analytic evaluator and the recurrence, on devices that are not
// alike and links that nobody shares.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "planner/plan/window.hpp"
#include "study/steady_state/recurrence.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/sim/sim_fixture.hpp"

namespace tandem::sim::testing::window_replay_test {
namespace {

using model::ReleaseRule;
using model::WeightBlock;
using planner::Plan;
using planner::Window;
using test::ModelSizes;

struct Links {
  double latency_s;
  double bandwidth_Bps;
};

constexpr double kFloat = 4.0;  // bytes

// Every two devices have a link of their own; device d is d + 1 times as slow as the first, which
// streams a float a second.
Plan apart(Plan plan, Links links, double disk_Bps) {
  std::vector<model::Device> devices = plan.cluster.devices();
  std::vector<model::Link> made;
  std::vector<model::Edge> edges;
  for (std::size_t a = 0; a < devices.size(); ++a) {
    const double slower = static_cast<double>(a + 1);
    devices[a].memory_bandwidth = model::BytesPerSecond{kFloat / slower};
    devices[a].flop_rate = model::FlopsPerSecond{1e21};
    devices[a].disk_bandwidth = model::BytesPerSecond{disk_Bps * slower};
    plan.profiles[a] = model::nominal_profile(devices[a]);
    for (const TaskKind copy : {TaskKind::capture, TaskKind::deliver})  // as in the recurrence
      plan.profiles[a].rate[static_cast<std::size_t>(copy)].points = {{1.0, 0.0}};
    for (std::size_t b = 0; b < a; ++b) {
      edges.push_back({.from = devices[b].name,
                       .to = devices[a].name,
                       .hops = {{.link = static_cast<model::LinkIndex>(made.size()),
                                 .direction = model::Direction::up}}});
      made.push_back({.name = "link " + std::to_string(made.size()),
                      .latency = model::Seconds{links.latency_s},
                      .bandwidth = model::BytesPerSecond{links.bandwidth_Bps},
                      .sharing = model::Sharing::split_duplex});
    }
  }
  plan.cluster = {"apart", devices, {}, made, edges};
  return plan;
}

Plan windowed(Plan plan, Window window, ReleaseRule rule) {
  for (planner::DevicePlan& device : plan.devices)
    device.window = planner::normalized(plan.model, device.share, window);
  plan.release = rule;
  plan.validate();
  return plan;
}

// Splits over 1 to 4 devices, of layers whose number is odd.
std::vector<Plan> splits() {
  const ModelSizes sizes{.layers = 3, .heads = 8, .kv_heads = 2, .intermediate = 11, .vocab = 37};
  return {test::plan_of("local", sizes, 0, {{8}, {11}}),
          test::plan_of("tensor", sizes, 1, {{4, 4}, {1, 10}}),
          test::plan_of("tensor", sizes, 0, {{4, 1, 3}, {3, 5, 3}}),
          test::plan_of("tensor", sizes, 2, {{2, 4, 1, 1}, {3, 1, 1, 6}})};
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max({1e-3, a, b}); }

// The recurrence of a plan in which only computing and loading take time.
study::MemorySchedule schedule_of(const Plan& plan) {
  const model::TaskGraph graph =
      planner::find_strategy(plan.strategy).lower(plan, planner::prompt_batch(plan.workload));
  const model::CostModel costs = plan.cost_model();
  // Blocks of a token, in order: what precedes the layers, the layers, final norm, tiles.
  std::map<std::pair<int, std::int32_t>, std::size_t> places;
  std::size_t blocks = 1;
  for (std::int32_t layer = 0; layer < plan.model.layers; ++layer) {
    places[{static_cast<int>(WeightBlock::attention), layer}] = blocks++;
    places[{static_cast<int>(WeightBlock::ffn), layer}] = blocks++;
  }
  const std::size_t norm = blocks++;
  std::map<std::int32_t, std::size_t> tiles;
  for (const model::Task& task : graph.tasks()) {
    if (task.kind == TaskKind::lm_head) tiles.emplace(task.columns.begin, blocks++);
  }
  study::MemorySchedule schedule;
  schedule.reduce.assign(blocks, 0);
  for (const planner::DevicePlan& device : plan.devices) {
    schedule.devices.push_back({.blocks = std::vector<study::BlockTimes>(
                                    blocks, study::BlockTimes{.residence = study::Residence::none}),
                                .release = plan.release});
    if (device.window.streams()) schedule.devices.back().window = device.window.blocks;
  }
  for (const model::Task& task : graph.tasks()) {
    if (task.lane == model::LaneKind::channel || task.kind == TaskKind::release) continue;
    const double seconds =
        lane_time(plan.cluster, costs, task, work_of(plan.model, graph.batch(), task)).value();
    REQUIRE(seconds == std::floor(seconds));
    const bool head = task.block == WeightBlock::head;
    const bool of_tile = head && task.kind != TaskKind::norm;
    std::size_t at = 0;
    if (of_tile) {
      at = tiles.at(task.columns.begin);
    } else if (head) {
      at = norm;
    } else if (task.block == WeightBlock::attention || task.block == WeightBlock::ffn) {
      at = places.at({static_cast<int>(task.block), task.layer});
    } else if (seconds > 0.0) {
      REQUIRE((task.kind == TaskKind::fetch || task.kind == TaskKind::embed));
    }
    study::BlockTimes& block = schedule.devices[static_cast<std::size_t>(task.device)].blocks[at];
    if (task.kind == TaskKind::load) {
      block.load = static_cast<study::Ticks>(seconds);
      block.residence = study::Residence::streamed;
    } else {
      block.compute += static_cast<study::Ticks>(seconds);
    }
  }
  return schedule;
}

void check_recurrence(const Plan& plan, const Spans& spans) {
  study::Recurrence recurrence(schedule_of(plan));
  std::map<int, double> sampled;
  std::map<std::pair<int, std::size_t>, double> stalls;
  for (const auto& [id, span] : spans) {
    if (span.kind == TaskKind::sample) sampled[span.step] = span.end;
    stalls[{span.step, static_cast<std::size_t>(span.device)}] += span.stall;
  }
  for (const auto& [step, end] : sampled) {
    CAPTURE(step);
    recurrence.token();
    const auto now = static_cast<double>(recurrence.now());
    CHECK(std::abs(end - now) <= 1e-9 * now);
    if (step == 0) continue;  // in which the recurrence leaves out what nothing can hide
    for (std::size_t d = 0; d < plan.devices.size(); ++d) {
      const auto expected = static_cast<double>(recurrence.stalls()[d]);
      CHECK(std::abs(stalls[{step, d}] - expected) <= 1e-9 * now);
    }
  }
}

}  // namespace

TEST_CASE(
    "sim/windowed plans: 1 to 4 unequal devices take the analytic evaluator's times, to 1e-9") {
  double stalled = 0.0;
  for (const Plan& whole : splits()) {
    for (const std::int32_t blocks : {1, 2, 3, 5}) {
      for (const std::int32_t retain : {0, 1, 2}) {
        for (const ReleaseRule rule : {ReleaseRule::early, ReleaseRule::late}) {
          CAPTURE(whole.devices.size());
          CAPTURE(blocks);
          CAPTURE(retain);
          const Plan plan =
              windowed(apart(whole, {7.0, 3.0}, 2.8), {.blocks = blocks, .retain = retain}, rule);
          planner::GenerationSteps steps(plan);
          const Spans expected = analytic(plan.cluster, plan.cost_model(), steps);
          planner::GenerationSteps again(plan);
          const Spans found = simulated(plan.cluster, plan.cost_model(), again);
          REQUIRE(found.size() == expected.size());
          int different = 0;
          for (const auto& [id, span] : expected) {
            const model::Span& other = found.at(id);
            stalled += span.stall;
            if (!near(span.start, other.start) || !near(span.end, other.end) ||
                !(std::abs(span.stall - other.stall) <= 1e-9 * std::max(1.0, span.start)) ||
                span.bytes != other.bytes)
              ++different;
          }
          CHECK(different == 0);
        }
      }
    }
  }
  CHECK(stalled > 0.0);
}

TEST_CASE("sim/windowed plans: both evaluators' tokens and stalls are the recurrence's, to 1e-9") {
  for (const Plan& whole : splits()) {
    for (const std::int32_t blocks : {1, 2, 3, 5}) {
      // With late release a worker, which is not sent the last sum, frees the last FFN block early:
      // here the last layer's is retained (three layers, T = 1 and 2).
      const std::vector<std::pair<std::int32_t, ReleaseRule>> cases{{0, ReleaseRule::early},
                                                                    {2, ReleaseRule::early},
                                                                    {1, ReleaseRule::late},
                                                                    {2, ReleaseRule::late}};
      for (const auto& [retain, rule] : cases) {
        CAPTURE(whole.devices.size());
        CAPTURE(blocks);
        CAPTURE(retain);
        // A disk of an integer number of seconds a float.
        Plan plan = apart(whole, {0.0, 1e21}, 1.0);
        std::vector<model::Device> devices = plan.cluster.devices();
        for (std::size_t d = 0; d < devices.size(); ++d) {
          devices[d].disk_bandwidth =
              model::BytesPerSecond{kFloat / static_cast<double>(1 + (d * 2 + 1) % 3)};
          for (const TaskKind kind :
               {TaskKind::add, TaskKind::attend, TaskKind::sample, TaskKind::transfer})
            plan.profiles[d].rate[static_cast<std::size_t>(kind)].points = {{1.0, 0.0}};
        }
        plan.cluster = {"apart", devices, {}, plan.cluster.links(), plan.cluster.edges()};
        plan.workload = {.prompt_tokens = 1, .new_tokens = 7};
        plan = windowed(plan, {.blocks = blocks, .retain = retain}, rule);
        planner::GenerationSteps steps(plan);
        check_recurrence(plan, analytic(plan.cluster, plan.cost_model(), steps));
        planner::GenerationSteps again(plan);
        check_recurrence(plan, simulated(plan.cluster, plan.cost_model(), again));
      }
    }
  }
}

}  // namespace tandem::sim::testing::window_replay_test
