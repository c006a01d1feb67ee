// Which devices wait for data of the master, and the announcements of those that do not.

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "model/graph/announcement.hpp"
#include "model/predict/analytic.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/collective_fixture.hpp"

namespace tandem::test::strategy_announcements_test {
namespace {

using model::DeviceIndex;
using model::TaskGraph;
using model::TaskIndex;

// Batches of prompts, of tokens, of both, and of texts that are scored.
std::vector<model::Batch> batches(bool generates, bool alone) {
  if (!generates) return {planner::prompt_batch({5, 0})};
  if (alone) return {planner::prompt_batch({5, 1}), planner::decode_batch(7)};
  return {planner::prompt_batch({5, 1}),
          planner::decode_batch(7),
          {{{.sequence = 2, .rows = 3}, {.sequence = 0, .past = 4}, {.sequence = 1, .past = 1}}},
          planner::scored_batch(4, 2)};
}

TEST_CASE("planner/announcement: in every lowering each device waits for data of the master" *
          doctest::test_suite("long")) {
  int lowered = 0;
  for (const planner::Strategy& strategy : planner::strategies()) {
    for (const std::string& allreduce : kAllreduces) {
      if (!strategy.sharding.has_collective() && allreduce != "star") continue;
      for (int devices = 1; devices <= 5; ++devices) {
        for (const model::Family family :
             {model::Family::llama, model::Family::gpt2, model::Family::opt, model::Family::bert}) {
          for (const std::int32_t window : {0, 2}) {
            if (window > 0 && !strategy.sharding.may_stream()) continue;
            const bool encodes = family == model::Family::bert;
            CAPTURE(strategy.name);
            CAPTURE(allreduce);
            CAPTURE(devices);
            CAPTURE(static_cast<int>(family));
            CAPTURE(window);
            const planner::Plan plan = plan_of_family(strategy, allreduce, devices, family, window);
            for (const model::Batch& batch : batches(!encodes, strategy.name == "spread")) {
              const TaskGraph graph = strategy.tasks(plan, batch);
              CHECK(model::unannounced(graph, plan.cluster, plan.master).empty());
              CHECK(strategy.lower(plan, batch).size() == graph.size());
              ++lowered;
            }
          }
        }
      }
    }
  }
  CHECK(lowered > 900);
}

model::Task cpu_task(DeviceIndex device) {
  return {.kind = model::TaskKind::add,
          .device = device,
          .rows = {0, 1},
          .columns = {0, 8},
          .input = {model::BufferKind::hidden},
          .output = {model::BufferKind::partial}};
}

model::Task message(DeviceIndex from, DeviceIndex to) {
  return {.kind = model::TaskKind::transfer,
          .lane = model::LaneKind::channel,
          .device = from,
          .peer = to,
          .rows = {0, 1},
          .columns = {0, 8},
          .input = {model::BufferKind::partial},
          .output = {model::BufferKind::hidden}};
}

TEST_CASE("planner/announcement: a device that begins on its own waits for its announcement" *
          doctest::test_suite("long")) {
  const model::Cluster cluster = star_cluster(std::vector<DeviceSpec>(3));
  TaskGraph graph({{{.sequence = 0, .past = 3}, {.sequence = 1, .past = 5}}});
  model::Task load = cpu_task(1);
  load.kind = model::TaskKind::load;
  load.lane = model::LaneKind::disk;
  load.block = model::WeightBlock::ffn;
  const TaskIndex loaded = graph.add(load, {});            // 0: depends on no batch
  const TaskIndex own = graph.add(cpu_task(1), {loaded});  // 1: begins on its own
  graph.add(cpu_task(1), {});                              // 2: behind it in its lane
  const TaskIndex sent = graph.add(message(1, 2), {own});  // 3
  const TaskIndex told = graph.add(cpu_task(2), {sent});   // 4: two routes after the announcement
  graph.add(cpu_task(0), {});                              // 5: the master's
  graph.add(message(2, 0), {told});                        // 6
  graph.record_event(own);
  graph.begin_epilogue();
  graph.add(cpu_task(0), {6});  // 7
  CHECK(model::unannounced(graph, cluster, 0) == std::vector<TaskIndex>{1});
  const TaskGraph whole = model::announced(graph, cluster, 0);
  REQUIRE(whole.size() == graph.size() + 1);
  CHECK(model::unannounced(whole, cluster, 0).empty());
  const model::Task& first = whole.tasks().front();
  CHECK(model::is_announcement(first));
  CHECK((first.device == 0 && first.peer == 1));
  // A frame of 24 bytes, and 16 for each of two segments.
  CHECK(4 * first.columns.size() == 24 + 2 * 16);
  CHECK(whole.epilogue() == graph.epilogue() + 1);
  CHECK(whole.events().front() == own + 1);
  CHECK(std::ranges::equal(whole.dependencies(2), std::vector<TaskIndex>{0, 1}));
  for (TaskIndex i = 3; i < whole.size(); ++i)
    CHECK(whole.dependencies(i).size() == graph.dependencies(i - 1).size());
  CHECK(model::announced(TaskGraph(whole), cluster, 0).size() == whole.size());
}

// The master and device 2 are far from each other, device 1 is near both.
model::Cluster triangle(double far_s) {
  const auto device = [](const char* name) {
    return model::Device{.name = name,
                         .cores = 1,
                         .flop_rate = model::FlopsPerSecond{1e9},
                         .memory_bandwidth = model::BytesPerSecond{1e10},
                         .memory = model::Bytes{1e12}};
  };
  const auto link = [](const char* name, double latency_s) {
    return model::Link{.name = name,
                       .latency = model::Seconds{latency_s},
                       .bandwidth = model::BytesPerSecond{1e6}};
  };
  return {"triangle",
          {device("a"), device("b"), device("c")},
          {},
          {link("ab", 1e-3), link("bc", 1e-3), link("ac", far_s)},
          {{"a", "b", {{0, model::Direction::up}}, true},
           {"b", "c", {{1, model::Direction::up}}, true},
           {"a", "c", {{2, model::Direction::up}}, true}}};
}

TEST_CASE("planner/announcement: data that comes faster than the announcement waits for it" *
          doctest::test_suite("long")) {
  planner::Plan plan = pipeline_of(3);
  const planner::Strategy& strategy = planner::find_strategy("pipeline");
  plan.cluster = triangle(2e-3);
  CHECK(!model::announces(strategy.lower(plan, planner::decode_batch(4))));
  plan.cluster = triangle(50e-3);
  const TaskGraph graph = strategy.lower(plan, planner::decode_batch(4));
  REQUIRE(model::announces(graph));
  CHECK(graph.tasks().front().peer == 2);
  // The third stage begins when it has been told, 50 ms and 40 bytes after the step's beginning.
  model::RunRecorder recorder(plan.cluster, plan.master, true);
  planner::GenerationSteps steps(plan, {.prompt_tokens = 2, .new_tokens = 1});
  model::evaluate_analytic(plan.cluster, plan.cost_model(), steps, recorder);
  double first = 1.0;
  for (const model::Span& span : recorder.trace().spans) {
    if (span.device == 2 && span.lane == model::LaneKind::cpu &&
        span.kind != model::TaskKind::deliver)
      first = std::min(first, span.start);
  }
  CHECK(first >= 50e-3 + 40e-6);
  CHECK(first <= 50e-3 + 41e-6);
}

TEST_CASE("planner/announcement: cache operations make another graph where they are announced" *
          doctest::test_suite("long")) {
  planner::Plan plan = pipeline_of(3);
  for (const bool far : {false, true}) {
    plan.cluster = triangle(far ? 50e-3 : 1e-3);
    planner::GraphCache graphs(plan);
    model::Batch batch = planner::decode_batch(4);
    const auto structure = graphs.graph_of(batch).structure();
    batch.cache = {{.kind = model::CacheOpKind::free, .sequence = 3}};
    const TaskGraph& with = graphs.graph_of(batch);
    CHECK((with.structure() == structure) == !far);
    if (far) CHECK(4 * with.tasks().front().columns.size() == 24 + 16 + 16);
    batch.cache.clear();
    CHECK(graphs.graph_of(batch).structure() == structure);
  }
}

}  // namespace
}  // namespace tandem::test::strategy_announcements_test
