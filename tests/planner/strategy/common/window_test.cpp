#include "planner/plan/window.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "model/base/error.hpp"
#include "model/predict/analytic.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "study/steady_state/recurrence.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/planner/planner_interpreter.hpp"

namespace tandem::test::window_test {
namespace {

using model::ReleaseRule;
using model::Share;
using model::Task;
using model::TaskGraph;
using model::TaskIndex;
using model::TaskKind;
using model::WeightBlock;
using planner::normalized;
using planner::Plan;
using planner::streamed_blocks;
using planner::Window;
using planner::window_memory;

Plan windowed(Plan plan, Window window, ReleaseRule rule) {
  for (planner::DevicePlan& device : plan.devices)
    device.window = normalized(plan.model, device.share, window);
  plan.release = rule;
  plan.validate();
  return plan;
}

// Splits over 1, 2, 3 and 4 devices, some of them without heads or columns.
std::vector<Plan> plans() {
  const ModelSizes mha{.layers = 4, .heads = 6, .kv_heads = 6, .intermediate = 13, .vocab = 23};
  const ModelSizes gqa{.layers = 3, .heads = 8, .kv_heads = 2, .intermediate = 11, .vocab = 37};
  return {plan_of("local", mha, 0, {{6}, {13}}), plan_of("tensor", mha, 1, {{4, 2}, {1, 12}}),
          plan_of("tensor", gqa, 0, {{4, 0, 4}, {3, 5, 3}}),
          plan_of("tensor", gqa, 2, {{2, 5, 0, 1}, {3, 0, 2, 6}}),
          plan_of("tensor", gqa, 0, {{8, 0}, {0, 11}})};
}

const std::vector<std::pair<Window, ReleaseRule>>& settings() {
  static const std::vector<std::pair<Window, ReleaseRule>> all = [] {
    std::vector<std::pair<Window, ReleaseRule>> list;
    for (const std::int32_t blocks : {1, 2, 3, 5, 7}) {
      for (const std::int32_t retain : {0, 1, 2, 3}) {
        for (const ReleaseRule rule : {ReleaseRule::early, ReleaseRule::late})
          list.push_back({{.blocks = blocks, .retain = retain}, rule});
      }
    }
    return list;
  }();
  return all;
}

std::vector<TaskGraph> generation(const Plan& plan, int tokens) {
  const planner::Strategy& strategy = planner::find_strategy(plan.strategy);
  std::vector<TaskGraph> graphs{strategy.lower(plan, planner::prompt_batch(plan.workload))};
  for (int i = 1; i < tokens; ++i)
    graphs.push_back(strategy.lower(plan, planner::decode_batch(4 + i)));
  return graphs;
}

// Executes steps in a random order that lanes, dependencies and events allow.
class RandomOrder {
 public:
  RandomOrder(const std::vector<TaskGraph>& graphs, unsigned seed)
      : graphs_(&graphs), random_(seed) {
    for (std::size_t s = 0; s < graphs.size(); ++s) {
      done_.emplace_back(graphs[s].tasks().size(), false);
      for (TaskIndex i = 0; i < graphs[s].size(); ++i) {
        const Task& task = graphs[s].tasks()[static_cast<std::size_t>(i)];
        lanes_[{task.device, static_cast<int>(task.lane), task.peer}].emplace_back(s, i);
      }
    }
  }

  // Calls visit(step, task) for every task; false if some can never run.
  template <class Visit>
  bool run(const Visit& visit) {
    std::size_t left = 0;
    for (const TaskGraph& graph : *graphs_) left += graph.tasks().size();
    for (; left > 0; --left) {
      std::vector<std::vector<std::pair<std::size_t, TaskIndex>>*> ready;
      for (auto& [key, lane] : lanes_) {
        if (!lane.empty() && may_run(lane.front().first, lane.front().second))
          ready.push_back(&lane);
      }
      if (ready.empty()) return false;
      // A disk that is fast, slow, or anything between.
      auto& lane = *ready[std::uniform_int_distribution<std::size_t>(0, ready.size() - 1)(random_)];
      const auto [step, index] = lane.front();
      lane.erase(lane.begin());
      done_[step][static_cast<std::size_t>(index)] = true;
      visit(step, (*graphs_)[step].tasks()[static_cast<std::size_t>(index)]);
    }
    return true;
  }

 private:
  [[nodiscard]] bool may_run(std::size_t step, TaskIndex i) const {
    const TaskGraph& graph = (*graphs_)[step];
    for (const TaskIndex d : graph.dependencies(i)) {
      if (!done_[step][static_cast<std::size_t>(d)]) return false;
    }
    if (step == 0) return true;
    for (const std::int32_t event : graph.awaited_events(i)) {
      const TaskIndex d = (*graphs_)[step - 1].events()[static_cast<std::size_t>(event)];
      if (!done_[step - 1][static_cast<std::size_t>(d)]) return false;
    }
    return true;
  }

  const std::vector<TaskGraph>* graphs_;
  std::mt19937 random_;
  std::vector<std::vector<bool>> done_;
  std::map<std::tuple<int, int, int>, std::vector<std::pair<std::size_t, TaskIndex>>> lanes_;
};

using BlockId = std::tuple<int, int, int>;  // block, layer, first column
BlockId id_of(const Task& task) {
  return {static_cast<int>(task.block), task.layer, task.columns.begin};
}

// A step with one row whose tasks take a second for each float that they stream, attention aside.
Plan in_whole_seconds(Plan plan, double disk_floats_per_s) {
  constexpr double kFloat = 4.0;  // bytes
  std::vector<model::Device> devices = plan.cluster.devices();
  for (model::Device& device : devices) {
    device.flop_rate = model::FlopsPerSecond{1e21};
    device.memory_bandwidth = model::BytesPerSecond{kFloat};
    device.disk_bandwidth = model::BytesPerSecond{kFloat * disk_floats_per_s};
  }
  plan.cluster = {plan.cluster.name(), devices, plan.cluster.routers(), plan.cluster.links(),
                  plan.cluster.edges()};
  for (std::size_t d = 0; d < devices.size(); ++d) {
    plan.profiles[d] = model::nominal_profile(devices[d]);
    plan.profiles[d].rate[static_cast<std::size_t>(TaskKind::attend)].points = {{1.0, 0.0}};
  }
  plan.workload = {.prompt_tokens = 1, .new_tokens = 12};
  return plan;
}

// The recurrence of a plan of one device: blocks as the graph has them, what follows a block on
// the device (the residual sum, the final norm, sampling) in place of its all-reduce.
study::MemorySchedule schedule_of(const Plan& plan) {
  const TaskGraph graph =
      planner::find_strategy("local").lower(plan, planner::prompt_batch(plan.workload));
  const model::CostModel costs = plan.cost_model();
  study::MemorySchedule schedule;
  study::StreamingDevice& device = schedule.devices.emplace_back();
  device.window = plan.devices[0].window.blocks;
  device.release = plan.release;
  const auto ticks = [&](const Task& task) {
    const double seconds =
        lane_time(plan.cluster, costs, task, work_of(plan.model, graph.batch(), task)).value();
    REQUIRE(seconds == std::floor(seconds));
    return static_cast<study::Ticks>(seconds);
  };
  study::Ticks load = -1;
  for (const Task& task : graph.tasks()) {
    if (task.kind == TaskKind::release) continue;
    if (task.kind == TaskKind::load) {
      load = ticks(task);
      continue;
    }
    const bool final_norm = task.kind == TaskKind::norm && task.block == WeightBlock::head;
    const bool first = task.kind == TaskKind::fetch || task.kind == TaskKind::lm_head ||
                       (task.kind == TaskKind::norm && !final_norm);
    if (first) {
      const study::Residence residence = load >= 0 ? study::Residence::streamed
                                         : task.kind == TaskKind::fetch
                                             ? study::Residence::none
                                             : study::Residence::retained;
      device.blocks.push_back(
          {.compute = 0, .load = std::max<study::Ticks>(load, 0), .residence = residence});
      schedule.reduce.push_back(0);
      load = -1;
    }
    const bool after = task.kind == TaskKind::add || task.kind == TaskKind::sample || final_norm;
    (after ? schedule.reduce.back() : device.blocks.back().compute) += ticks(task);
  }
  return schedule;
}

}  // namespace

TEST_CASE("planner/window: any window, retention and rule give the unsharded model's logits") {
  for (const Plan& plan : plans()) {
    for (const auto& [window, rule] : settings()) {
      CAPTURE(plan.cluster.size());
      CAPTURE(window.blocks);
      CAPTURE(window.retain);
      check_generation(windowed(plan, window, rule));
    }
  }
}

TEST_CASE("planner/window: no legal order of execution holds more than the window or too little") {
  unsigned seed = 0;
  std::size_t full = 0;
  for (const Plan& whole : plans()) {
    for (const auto& [window, rule] : settings()) {
      const Plan plan = windowed(whole, window, rule);
      const std::vector<TaskGraph> graphs = generation(plan, 4);
      CAPTURE(window.blocks);
      CAPTURE(window.retain);
      std::vector<std::set<BlockId>> held(plan.devices.size());
      int too_many = 0;
      int missing = 0;
      const bool ended = RandomOrder(graphs, ++seed).run([&](std::size_t, const Task& task) {
        const Window own = plan.devices[static_cast<std::size_t>(task.device)].window;
        std::set<BlockId>& blocks = held[static_cast<std::size_t>(task.device)];
        if (!own.streams()) return;
        if (task.kind == TaskKind::load) {
          blocks.insert(id_of(task));
          if (blocks.size() > static_cast<std::size_t>(own.blocks)) ++too_many;
          if (blocks.size() == static_cast<std::size_t>(own.blocks)) ++full;
        } else if (task.kind == TaskKind::release) {
          if (blocks.erase(id_of(task)) != 1) ++missing;
        } else if (task.kind == TaskKind::project_qkv || task.kind == TaskKind::project_out ||
                   task.kind == TaskKind::lm_head ||
                   ((task.kind == TaskKind::ffn_up || task.kind == TaskKind::ffn_down) &&
                    !own.retains(task.layer))) {
          if (!blocks.contains(id_of(task))) ++missing;
        }
      });
      CHECK(ended);
      CHECK(too_many == 0);
      CHECK(missing == 0);
    }
  }
  CHECK(full > 1000);
}

TEST_CASE("planner/window: a graph of one device takes the times of the recurrence, to 1e-9") {
  std::mt19937 random(11);
  const auto draw = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  int streamed = 0;
  for (int trial = 0; trial < 200; ++trial) {
    CAPTURE(trial);
    const ModelSizes sizes{.layers = draw(1, 6),
                           .heads = 2,
                           .kv_heads = draw(1, 2),
                           .head_dim = 2 * draw(1, 3),
                           .intermediate = draw(1, 30),
                           .vocab = draw(3, 90)};
    Plan plan = plan_of("local", sizes, 0, {{2}, {sizes.intermediate}});
    plan = in_whole_seconds(plan, 1.0 / draw(1, 4));
    const auto retain = static_cast<std::int32_t>(draw(0, static_cast<int>(sizes.layers)));
    plan = windowed(plan, {.blocks = draw(1, 9), .retain = retain}, ReleaseRule::early);
    if (!plan.devices[0].window.streams()) continue;
    ++streamed;

    planner::GenerationSteps steps(plan);
    model::RunRecorder recorder(plan.cluster, 0, true);
    model::evaluate_analytic(plan.cluster, plan.cost_model(), steps, recorder);
    study::Recurrence recurrence(schedule_of(plan), study::Start::cold);
    std::map<int, double> sampled;
    std::map<int, double> stalls;
    for (const model::Span& span : recorder.trace().spans) {
      if (span.kind == TaskKind::sample) sampled[span.step] = span.end;
      stalls[span.step] += span.stall;
    }
    for (int step = 0; step < steps.count(); ++step) {
      recurrence.token();
      const auto expected = static_cast<double>(recurrence.now());
      CHECK(std::abs(sampled[step] - expected) <= 1e-9 * expected);
      if (step == 0) continue;  // in which the recurrence does not count what nothing can hide
      CHECK(std::abs(stalls[step] - static_cast<double>(recurrence.stalls()[0])) <=
            1e-9 * expected);
    }
  }
  CHECK(streamed > 100);
}

TEST_CASE("planner/window: without one there is nothing to load, release or fetch") {
  for (const Plan& plan : plans()) {
    for (const TaskGraph& graph : generation(plan, 2)) {
      CHECK(graph.events().empty());
      CHECK(std::ranges::none_of(graph.tasks(), [](const Task& task) {
        return task.kind == TaskKind::load || task.kind == TaskKind::release ||
               task.kind == TaskKind::fetch;
      }));
    }
  }
}

TEST_CASE("planner/window: a text's rows are all scored while each tile of the head passes once") {
  const std::vector<int> text{3, 1, 4, 1, 5};
  for (const Plan& whole : plans()) {
    for (const auto& [window, rule] : settings()) {
      const Plan plan = windowed(whole, window, rule);
      CAPTURE(window.blocks);
      const planner::Strategy& strategy = planner::find_strategy(plan.strategy);
      for (const std::int32_t wanted : {1, 3, 5}) {
        const auto sampled =
            Interpreter(plan).run(strategy.lower(plan, planner::scored_batch(5, wanted)), text);
        REQUIRE(sampled.size() == static_cast<std::size_t>(wanted));
        for (std::int32_t row = 5 - wanted; row < 5; ++row)
          check_close(sampled.at(row),
                      reference_logits(plan.model, {text.begin(), text.begin() + row + 1}));
      }
    }
  }
  const Plan plan = windowed(plans()[0], {.blocks = 2}, ReleaseRule::early);
  CHECK_THROWS_WITH_AS(planner::find_strategy("local").lower(plan, planner::scored_batch(5, 0)),
                       doctest::Contains("--window all"), Error);
}

TEST_CASE("planner/window: a plan with a window that cannot be is one clear error") {
  Plan good = windowed(plans()[1], {.blocks = 2, .retain = 3}, ReleaseRule::late);
  const std::vector<model::MemoryUse> memory = planner::predicted_memory(good);
  for (std::size_t d = 0; d < memory.size(); ++d) good.devices[d].memory = memory[d];
  CHECK(planner::parse_plan_json(to_json(good), "plan.json") == good);
  const auto message = [&](Window window) -> std::string {
    Plan bad = good;
    bad.devices[1].window = window;
    try {
      bad.validate();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message({.blocks = -1}).find("-1 blocks") != std::string::npos);
  CHECK(message({.blocks = 2, .retain = -1}).find("retain -1") != std::string::npos);
  CHECK(message({.blocks = 2, .retain = 5}).find("0 to 4") != std::string::npos);
  CHECK(message({.blocks = 0, .retain = 1}).find("retain 1") != std::string::npos);
  CHECK(message({.blocks = 1000}).find("fewer than") != std::string::npos);
  Plan bad = good;
  std::vector<model::Device> devices = bad.cluster.devices();
  devices[1].disk_bandwidth = {};
  bad.cluster = {"star", devices, bad.cluster.routers(), bad.cluster.links(), bad.cluster.edges()};
  CHECK_THROWS_WITH_AS(bad.validate(), doctest::Contains("'tandem:disk_bandwidth'"), Error);
  CHECK_THROWS_WITH_AS(bad.validate(), doctest::Contains("'d1'"), Error);
}

}  // namespace tandem::test::window_test
