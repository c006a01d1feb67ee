#include "model/graph/task_graph.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace tandem::model::task_graph_test {
namespace {
Batch three_rows() { return {{{.sequence = 0, .past = 5, .rows = 2}, {.sequence = 1}}}; }
Task add_task() { return {.kind = TaskKind::add, .rows = {0, 3}, .columns = {0, 8}}; }
}  // namespace

TEST_CASE("model/task_graph: every kind has its own name") {
  std::set<std::string> names;
  for (int k = 0; k < kTaskKinds; ++k) {
    names.insert(std::string(to_string(static_cast<TaskKind>(k))));
  }
  CHECK(names.size() == static_cast<std::size_t>(kTaskKinds));
  CHECK(to_string(LaneKind::channel) == "channel");
  CHECK(to_string(WeightBlock::ffn) == "ffn");
  CHECK(to_string(BufferKind::key_value) == "key_value");
}

TEST_CASE("model/task_graph: tasks and dependencies come back as added") {
  TaskGraph graph(three_rows());
  CHECK(graph.batch().rows() == 3);
  const TaskIndex a = graph.add(add_task(), {});
  const TaskIndex b = graph.add(add_task(), {a});
  const TaskIndex c = graph.add(add_task(), {a, b});
  CHECK(graph.size() == 3);
  CHECK(graph.dependencies(a).empty());
  REQUIRE(graph.dependencies(c).size() == 2);
  CHECK(graph.dependencies(c)[1] == b);
}

TEST_CASE("model/task_graph: ill-formed tasks are refused") {
  TaskGraph graph(three_rows());
  const TaskIndex first = graph.add(add_task(), {});
  CHECK_THROWS_AS(graph.add(add_task(), {first + 1}), std::logic_error);
  CHECK_THROWS_AS(graph.add(add_task(), {-1}), std::logic_error);
  const auto refused = [&](auto change) {
    Task task = add_task();
    change(task);
    CHECK_THROWS_AS(graph.add(task, {}), std::logic_error);
  };
  refused([](Task& t) { t.lane = LaneKind::channel; });
  refused([](Task& t) { t.lane = LaneKind::disk; });
  refused([](Task& t) { t.kind = TaskKind::load; });
  refused([](Task& t) { t.kind = TaskKind::transfer; });
  refused([](Task& t) { t.peer = 1; });
  refused([](Task& t) { t.rows = {0, 4}; });
  refused([](Task& t) { t.rows = {2, 1}; });
  refused([](Task& t) { t.columns = {3, 2}; });
  refused([](Task& t) { t.columns = {-1, 2}; });
  refused([](Task& t) { t.device = -1; });
  refused([](Task& t) { t.layer = -2; });
  refused([](Task& t) {  // a channel to itself
    t.kind = TaskKind::transfer;
    t.lane = LaneKind::channel;
    t.peer = 0;
  });
  CHECK(graph.size() == 1);
}

TEST_CASE("model/task_graph: a batch has rows and positions") {
  CHECK_THROWS_AS(TaskGraph(Batch{{{.rows = 0}}}), std::logic_error);
  CHECK_THROWS_AS(TaskGraph(Batch{{{.past = -1}}}), std::logic_error);
  CHECK_THROWS_AS(TaskGraph(Batch{{{.past = 2147483647, .rows = 1}}}), std::logic_error);
}

TEST_CASE("model/task_graph: sampled rows are some of a segment's") {
  for (const std::int32_t sampled : {0, 1, 3}) {
    CHECK_NOTHROW(TaskGraph({{{.rows = 3, .sampled = sampled}}}));
  }
  for (const std::int32_t sampled : {-1, 4}) {
    CHECK_THROWS_AS(TaskGraph({{{.rows = 3, .sampled = sampled}}}), std::logic_error);
  }
}

TEST_CASE("model/task_graph: advance moves every segment and nothing else") {
  TaskGraph graph(three_rows());
  graph.add(add_task(), {});
  const std::int32_t past[] = {7, 1};
  graph.advance(past);
  CHECK(graph.batch() ==
        Batch{{{.sequence = 0, .past = 7, .rows = 2}, {.sequence = 1, .past = 1}}});
  const std::int32_t one[] = {8};
  CHECK_THROWS_AS(graph.advance(one), std::logic_error);
  const std::int32_t negative[] = {8, -1};
  CHECK_THROWS_AS(graph.advance(negative), std::logic_error);
  CHECK(graph.batch().segments[0].past == 7);
  SUBCASE("cache operations are one step's") {
    const CacheOp op{.kind = CacheOpKind::fork, .sequence = 1, .from = 0, .positions = 7};
    graph.advance(past, {op});
    CHECK(graph.batch().cache == std::vector<CacheOp>{op});
    CHECK_THROWS_AS(graph.advance(past, {{.positions = -1}}), std::logic_error);
    graph.advance(past);
    CHECK(graph.batch().cache.empty());
  }
}

TEST_CASE("model/task_graph: the structure's identity lasts through advance and ends with add") {
  TaskGraph graph(three_rows());
  graph.add(add_task(), {});
  const auto structure = graph.structure();
  const std::int32_t past[] = {9, 3};
  graph.advance(past);
  CHECK(graph.structure() == structure);
  TaskGraph copy = graph;
  CHECK(copy.structure() == structure);
  copy.add(add_task(), {});
  CHECK(copy.structure() != structure);
  CHECK(graph.structure() == structure);
  graph.add(add_task(), {});
  CHECK(graph.structure() != structure);
  CHECK(TaskGraph(three_rows()).structure() != TaskGraph(three_rows()).structure());
}

TEST_CASE(
    "model/task_graph: events come back as recorded and awaited, and belong to the structure") {
  TaskGraph graph(three_rows());
  const TaskIndex a = graph.add(add_task(), {}, {1, 0});
  const TaskIndex b = graph.add(add_task(), {a});
  graph.record_event(b);
  graph.record_event(a);
  graph.record_event(b);
  REQUIRE(graph.events().size() == 3);
  CHECK(graph.events()[0] == b);
  CHECK(graph.events()[1] == a);
  CHECK(graph.events()[2] == b);
  REQUIRE(graph.awaited_events(a).size() == 2);
  CHECK(graph.awaited_events(a)[0] == 1);
  CHECK(graph.awaited_events(a)[1] == 0);
  CHECK(graph.awaited_events(b).empty());
  const TaskGraph copy = graph;
  graph.record_event(a);
  CHECK(copy.structure() != graph.structure());
  CHECK_THROWS_AS(graph.record_event(2), std::logic_error);
  CHECK_THROWS_AS(graph.record_event(-1), std::logic_error);
  CHECK_THROWS_AS(graph.add(add_task(), {}, {-1}), std::logic_error);
}

}  // namespace tandem::model::task_graph_test
