// Every lowering orders what its tasks do to storage; a graph that lacks an edge is found out, or
// executes as it did.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "model/graph/conflicts.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/collective_fixture.hpp"
#include "tests/support/symbolic_execution.hpp"

namespace tandem::test::strategy_conflicts_test {
namespace {

using model::DeviceIndex;
using model::LaneKind;
using model::Task;
using model::TaskGraph;
using model::TaskIndex;
using model::TaskKind;

struct Lowered {
  std::string name;
  planner::Plan plan;
};

std::vector<Lowered> plans(int most_devices, const std::vector<model::Family>& families) {
  std::vector<Lowered> all;
  for (const planner::Strategy& strategy : planner::strategies()) {
    for (const std::string& allreduce : kAllreduces) {
      if (!strategy.sharding.has_collective() && allreduce != "star") continue;
      for (int devices = 1; devices <= most_devices; ++devices) {
        for (const model::Family family : families) {
          for (const std::int32_t window : {0, 1, 3}) {
            if (window > 0 && !strategy.sharding.may_stream()) continue;
            all.push_back({strategy.name + " " + allreduce + " on " + std::to_string(devices) +
                               ", family " + std::to_string(static_cast<int>(family)) +
                               ", window " + std::to_string(window),
                           plan_of_family(strategy, allreduce, devices, family, window)});
          }
        }
      }
    }
  }
  return all;
}

std::vector<TaskGraph> graphs_of(const planner::Plan& plan) {
  const planner::Strategy& strategy = planner::find_strategy(plan.strategy);
  std::vector<TaskGraph> graphs{strategy.lower(plan, planner::prompt_batch(plan.workload))};
  if (!plan.model.architecture().generates()) return graphs;
  graphs.push_back(strategy.lower(plan, planner::decode_batch(7)));
  if (strategy.name == "spread") return graphs;  // one sequence at a time
  graphs.push_back(strategy.lower(
      plan,
      {{{.sequence = 2, .rows = 3}, {.sequence = 0, .past = 4}, {.sequence = 1, .past = 1}}}));
  return graphs;
}

TEST_CASE("planner/conflicts: every lowering orders its tasks and declares what they use" *
          doctest::test_suite("long")) {
  for (const Lowered& one : plans(5, {model::Family::llama, model::Family::gpt2, model::Family::opt,
                                      model::Family::bert})) {
    CAPTURE(one.name);
    for (const TaskGraph& graph : graphs_of(one.plan)) {
      CHECK(model::find_conflict(graph).value_or("") == "");
      CHECK(model::undeclared(graph).empty());
    }
  }
}

// Devices without heads or columns, the master among them.
TEST_CASE("planner/conflicts: so does every uneven share" * doctest::test_suite("long")) {
  const ::tandem::test::ModelSizes gqa{.layers = 3, .heads = 8, .kv_heads = 2, .intermediate = 11};
  for (const auto& [master, split] :
       std::vector<std::pair<DeviceIndex, planner::Split>>{{0, {{4, 0, 4}, {3, 5, 3}}},
                                                           {0, {{4, 3, 1}, {8, 0, 3}}},
                                                           {1, {{4, 0, 4}, {3, 5, 3}}},
                                                           {1, {{4, 1, 3}, {7, 0, 4}}},
                                                           {0, {{8, 0}, {0, 11}}},
                                                           {2, {{2, 0, 4, 2}, {0, 5, 3, 3}}}}) {
    for (const std::string& allreduce : kAllreduces) {
      planner::Plan plan = plan_of("tensor", gqa, master, split);
      plan.allreduce = {allreduce, allreduce};
      CAPTURE(plan.master);
      CAPTURE(allreduce);
      for (const TaskGraph& graph : graphs_of(plan)) {
        CHECK(model::find_conflict(graph).value_or("") == "");
        CHECK(model::undeclared(graph).empty());
      }
    }
  }
}

// The graph without the `which`-th dependency of task `of`; an awaited event if `event`.
TaskGraph without(const TaskGraph& graph, TaskIndex of, std::size_t which, bool event) {
  TaskGraph less(graph.batch());
  for (DeviceIndex d = 0; d < 16; ++d) {
    for (const model::BufferDeclaration& buffer : graph.declared(d)) less.declare(d, buffer);
  }
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    if (graph.has_epilogue() && i == graph.epilogue()) less.begin_epilogue();
    std::vector<TaskIndex> dependencies(graph.dependencies(i).begin(), graph.dependencies(i).end());
    std::vector<std::int32_t> events(graph.awaited_events(i).begin(),
                                     graph.awaited_events(i).end());
    const auto at = static_cast<std::ptrdiff_t>(which);
    if (i == of && event) events.erase(events.begin() + at);
    if (i == of && !event) dependencies.erase(dependencies.begin() + at);
    less.add(graph.tasks()[static_cast<std::size_t>(i)], dependencies, events);
  }
  for (const TaskIndex task : graph.events()) less.record_event(task);
  return less;
}

// Whether random orders of `graph` give what the serial execution of `whole` does.
bool executes_as(const TaskGraph& graph, const TaskGraph& whole, std::mt19937& random, int orders) {
  const std::vector<std::uint64_t> expected = SymbolicExecution(whole, 2, false).run(nullptr);
  for (const bool interleaved : {false, true}) {
    if (interleaved && !graph.has_epilogue()) continue;
    SymbolicExecution symbolic(graph, 2, interleaved);
    for (int i = 0; i < orders; ++i) {
      if (symbolic.run(&random) != expected) return false;
    }
  }
  return true;
}

planner::Plan small_plan(const std::string& strategy, const std::string& allreduce, int devices,
                         std::int32_t window) {
  planner::Request request{
      .model = small_model({.layers = 3, .heads = 3, .kv_heads = 3, .head_dim = 2, .vocab = 7}),
      .cluster = star_cluster(std::vector<DeviceSpec>(static_cast<std::size_t>(devices))),
      .strategy = strategy,
      .allreduce = allreduce,
      .workload = {.prompt_tokens = 2, .new_tokens = 2}};
  request.window.blocks = window;
  auto made = planner::make_plan(request);
  REQUIRE(std::holds_alternative<planner::Plan>(made));
  return std::get<planner::Plan>(std::move(made));
}

TEST_CASE("planner/conflicts: an edge that is left out is found, or was not needed" *
          doctest::test_suite("long")) {
  std::mt19937 random(7);
  int found = 0;
  int wrong = 0;
  int redundant = 0;
  const auto check = [&](const TaskGraph& whole, TaskIndex of, std::size_t which, bool event) {
    const TaskGraph less = without(whole, of, which, event);
    const auto conflict = model::find_conflict(less);
    CAPTURE(of);
    CAPTURE(which);
    CAPTURE(event);
    if (!conflict) {
      CHECK(executes_as(less, whole, random, 3));
      ++redundant;
    } else {
      ++found;
      if (found % 7 == 0 && !executes_as(less, whole, random, 6)) ++wrong;
    }
  };
  struct Given {
    const char* strategy;
    const char* allreduce;
    int devices;
    std::int32_t window;
  };
  for (const Given& given : {Given{"local", "star", 1, 2}, Given{"tensor", "star", 3, 0},
                             Given{"tensor", "tree:3", 3, 0}, Given{"tensor", "ring", 3, 0},
                             Given{"tensor", "halving", 3, 2}, Given{"pipeline", "star", 3, 0},
                             Given{"pipeline", "star", 2, 1}}) {
    const planner::Plan plan =
        small_plan(given.strategy, given.allreduce, given.devices, given.window);
    CAPTURE(given.strategy);
    CAPTURE(given.allreduce);
    CAPTURE(given.window);
    const TaskGraph graph =
        planner::find_strategy(plan.strategy).lower(plan, planner::decode_batch(3));
    REQUIRE(model::find_conflict(graph).value_or("") == "");
    REQUIRE(executes_as(graph, graph, random, 8));
    for (TaskIndex i = 0; i < graph.size(); ++i) {
      for (std::size_t k = 0; k < graph.dependencies(i).size(); ++k) check(graph, i, k, false);
      for (std::size_t k = 0; k < graph.awaited_events(i).size(); ++k) check(graph, i, k, true);
    }
  }
  MESSAGE("found " << found << ", of which a seventh was executed and " << wrong
                   << " went wrong; not needed " << redundant);
  CHECK(found > 100);
  CHECK(wrong > 10);
  CHECK(redundant > 100);
}

TEST_CASE("planner/conflicts: random graphs that are in order execute as in serial order" *
          doctest::test_suite("long")) {
  std::mt19937 random(11);
  const auto below = [&](std::size_t n) { return random() % n; };
  constexpr std::array kBuffers{model::BufferKind::hidden, model::BufferKind::partial,
                                model::BufferKind::receive};
  int ordered = 0;
  int disordered = 0;
  int wrong = 0;
  for (int round = 0; round < 1500; ++round) {
    CAPTURE(round);
    const std::size_t devices = 2 + below(2);
    const std::size_t density = 2 + below(4);
    TaskGraph graph(model::Batch{{{.rows = 2}}});
    for (std::size_t i = 3 + below(10); i > 0; --i) {
      Task task{
          .kind = TaskKind::add,
          .device = static_cast<DeviceIndex>(below(devices)),
          .rows = {0, 1 + static_cast<std::int32_t>(below(2))},
          .columns = {static_cast<std::int32_t>(below(2)), 2 + static_cast<std::int32_t>(below(2))},
          .input = {kBuffers.at(below(3))},
          .output = {kBuffers.at(below(3))}};
      if (below(2) == 0) {
        task.kind = TaskKind::transfer;
        task.lane = LaneKind::channel;
        task.peer = static_cast<DeviceIndex>(
            (static_cast<std::size_t>(task.device) + 1 + below(devices - 1)) % devices);
      }
      std::vector<TaskIndex> dependencies;
      for (TaskIndex j = 0; j < graph.size(); ++j) {
        const Task& before = graph.tasks()[static_cast<std::size_t>(j)];
        if ((before.device == task.device || before.peer == task.device) && below(density) == 0)
          dependencies.push_back(j);
      }
      graph.add(task, dependencies);
    }
    const std::vector<std::uint64_t> expected = SymbolicExecution(graph, 1, false).run(nullptr);
    SymbolicExecution symbolic(graph, 1, false);
    bool same = true;
    for (int i = 0; i < 8 && same; ++i) same = symbolic.run(&random) == expected;
    if (!model::find_conflict(graph)) {
      CHECK(same);
      ++ordered;
    } else {
      ++disordered;
      if (!same) ++wrong;
    }
  }
  CHECK(ordered > 150);
  CHECK(disordered > 300);
  CHECK(wrong > 200);
}

TEST_CASE("planner/conflicts: an epilogue that needs what was computed before it is found" *
          doctest::test_suite("long")) {
  const planner::Plan plan = small_plan("pipeline", "star", 2, 0);
  const planner::Strategy& strategy = planner::find_strategy("pipeline");
  const TaskGraph graph = strategy.lower(plan, planner::decode_batch(3));
  REQUIRE(graph.has_epilogue());
  // The last layer's sum stays on the master, and the epilogue reads it there.
  TaskGraph other(graph.batch());
  for (DeviceIndex d = 0; d < 2; ++d) {
    for (const model::BufferDeclaration& buffer : graph.declared(d)) other.declare(d, buffer);
  }
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    if (i == graph.epilogue()) other.begin_epilogue();
    Task task = graph.tasks()[static_cast<std::size_t>(i)];
    if (task.lane == LaneKind::channel && task.peer == plan.master)
      task.columns.end -= 1;  // not all of it comes back
    other.add(task,
              std::vector<TaskIndex>(graph.dependencies(i).begin(), graph.dependencies(i).end()));
  }
  const std::string fault = model::find_conflict(other).value_or("");
  CAPTURE(fault);
  CHECK(fault.find("of the epilogue reads hidden of another step") != std::string::npos);
  std::mt19937 random(3);
  CHECK(!executes_as(other, other, random, 20));
}

}  // namespace
}  // namespace tandem::test::strategy_conflicts_test
