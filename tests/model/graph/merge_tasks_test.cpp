// Attention over parts of the keys in the vocabulary: what it does, touches, takes and sends.

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "model/graph/accesses.hpp"
#include "model/graph/conflicts.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/message_schedule.hpp"
#include "model/graph/work.hpp"
#include "model/predict/cost_model.hpp"
#include "model/predict/device_profile.hpp"
#include "tests/model/model_fixtures.hpp"

namespace tandem::model::merge_tasks_test {
namespace {

constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kHeadDim = 6;
constexpr Range kAllHeads{0, 4};

Transformer small() {
  Transformer t;
  t.name = "small";
  t.layers = 1;
  t.hidden = 24;
  t.heads = kHeads;
  t.kv_heads = 2;
  t.head_dim = kHeadDim;
  t.intermediate = 32;
  t.vocab = 50;
  t.max_context = 256;
  return t;
}

Task task(TaskKind kind, DeviceIndex device, Range rows, BufferRef input, BufferRef output) {
  Task made;
  made.kind = kind;
  made.device = device;
  made.layer = 0;
  made.rows = rows;
  made.columns = kAllHeads;
  made.input = input;
  made.output = output;
  return made;
}

constexpr BufferRef kQuery{BufferKind::query, 0};
BufferRef attention(std::int16_t slot) { return {BufferKind::attention, slot}; }
BufferRef softmax(std::int16_t slot) { return {BufferKind::softmax, slot}; }

Task sent(DeviceIndex from, DeviceIndex to, Range rows, BufferRef input, BufferRef output,
          std::int32_t columns) {
  Task made = task(TaskKind::transfer, from, rows, input, output);
  made.lane = LaneKind::channel;
  made.peer = to;
  made.columns = {0, columns};
  return made;
}

Task part(DeviceIndex device, Range rows, Range keys) {
  Task made = task(TaskKind::attend, device, rows, kQuery, attention(0));
  made.keys = keys;
  made.statistics = true;
  return made;
}

void declare(TaskGraph& graph, DeviceIndex device, bool told) {
  const auto add = [&](BufferRef name, std::int64_t columns) {
    graph.declare(device, {.name = name, .columns = columns});
  };
  add(kQuery, kHeads * kHeadDim);
  graph.declare(device, {.name = {BufferKind::key_value},
                         .rows = RowCount::positions,
                         .columns = 2 * kHeads * kHeadDim,
                         .lifetime = Lifetime::sequence});
  for (std::int16_t slot = 0; slot < 2; ++slot) {
    add(attention(slot), kHeads * kHeadDim);
    if (told) add(softmax(slot), 2 * kHeads);
  }
}

// Device 1 attends over part of the keys for a row of device 0. Left out: that the merge waits.
TaskGraph two_parts(bool waits, bool told = true) {
  TaskGraph graph(Batch{{{.past = 100}}});
  for (const DeviceIndex device : {0, 1}) declare(graph, device, told);
  constexpr Range kRow{0, 1};
  const TaskIndex query =
      graph.add(sent(0, 1, kRow, kQuery, kQuery, kHeads * kHeadDim), std::vector<TaskIndex>{});
  graph.add(part(0, kRow, {60, kCausal.end}), {});
  const TaskIndex theirs = graph.add(part(1, kRow, {0, 60}), {query});
  graph.add(sent(1, 0, kRow, attention(0), attention(1), kHeads * kHeadDim), {theirs});
  const TaskIndex there = graph.add(sent(1, 0, kRow, softmax(0), softmax(1), 2 * kHeads), {theirs});
  const Task merged = task(TaskKind::merge, 0, kRow, attention(1), attention(0));
  if (waits) {
    graph.add(merged, {there - 1, there});
  } else {
    graph.add(merged, {there - 1});
  }
  return graph;
}

TEST_CASE("model/merge: waits for both the result and the softmax of a part") {
  CHECK(find_conflict(two_parts(true)).value_or("") == "");
  CHECK(undeclared(two_parts(true)).empty());
  const std::string fault = find_conflict(two_parts(false)).value_or("");
  CHECK(fault.find("reads softmax on device 0") != std::string::npos);
  CHECK(!undeclared(two_parts(true, false)).empty());
}

TEST_CASE(
    "model/merge: messages are captured when the part is made, and delivered before merging") {
  const TaskGraph graph = two_parts(true);
  const MessageSchedule schedule = message_schedule(graph);
  for (const std::size_t message : {std::size_t{3}, std::size_t{4}}) {
    CHECK(schedule.capture[message] == 2);
    CHECK(schedule.delivery[message] == 5);
  }
}

TEST_CASE("model/merge: reads and writes both slots and their softmax") {
  const Task merge = task(TaskKind::merge, 0, {0, 1}, attention(2), attention(0));
  std::vector<BufferRef> read;
  std::vector<BufferRef> written;
  for (const Access& access : accesses_of(merge, 0))
    (access.writes ? written : read).push_back(access.buffer);
  CHECK(read == std::vector{attention(2), attention(0), softmax(2), softmax(0)});
  CHECK(written == std::vector{attention(0), softmax(0)});
  CHECK(softmax_written(part(0, {0, 1}, {0, 5})) == softmax(0));
  CHECK(softmax_written(task(TaskKind::attend, 0, {0, 1}, kQuery, attention(0))) == BufferRef{});
}

TEST_CASE("model/merge: ill-formed tasks are refused") {
  TaskGraph graph(Batch{{{.past = 100}}});
  Task message = sent(1, 0, {0, 1}, softmax(0), softmax(1), 2 * kHeads);
  CHECK(payload_bytes(message) == 2 * 4 * kHeads);
  message.wire = WireFormat::f16;
  CHECK_THROWS_AS(graph.add(message, {}), std::logic_error);
  Task told = task(TaskKind::merge, 0, {0, 1}, attention(1), attention(0));
  told.statistics = true;
  CHECK_THROWS_AS(graph.add(told, {}), std::logic_error);
  CHECK_THROWS_AS(graph.add(task(TaskKind::merge, 0, {0, 1}, attention(1), attention(1)), {}),
                  std::logic_error);
  CHECK_THROWS_AS(graph.add(task(TaskKind::merge, 0, {0, 1}, kQuery, attention(1)), {}),
                  std::logic_error);
}

TEST_CASE("model/merge: work of parts is that of the whole, and of a merge three streams") {
  const Transformer t = small();
  const Batch batch{{{.past = 100, .rows = 3}}};
  const auto flops = [&](Range keys) { return work_of(t, batch, part(0, {0, 3}, keys)).flops; };
  CHECK(flops({0, 33}) + flops({33, 70}) + flops({70, kCausal.end}) == flops(kCausal));
  const Work merge =
      work_of(t, batch, task(TaskKind::merge, 0, {0, 3}, attention(1), attention(0)));
  SUBCASE("3 rows of 4 heads of 6 and 2: 4 (3 x 3 x 4 x 8) bytes, 3 (3 x 4 x 6) flops") {
    CHECK(merge.streamed_bytes == 4.0 * 3 * 3 * 4 * 8);
    CHECK(merge.flops == 3.0 * 3 * 4 * 6);
  }
  Work told = work_of(t, batch, part(0, {0, 3}, kCausal));
  Task silent = part(0, {0, 3}, kCausal);
  silent.statistics = false;
  CHECK(told.bytes_written - work_of(t, batch, silent).bytes_written == 4.0 * 3 * 4 * 2);
}

TEST_CASE("model/merge: takes the time that its own rate says, which old profiles lack") {
  const Transformer t = small();
  DeviceProfile profile = nominal_profile(
      {.name = "one", .flop_rate = FlopsPerSecond{1e9}, .memory_bandwidth = BytesPerSecond{1e8}});
  const Batch batch{{{.past = 100, .rows = 3}}};
  const Task merge = task(TaskKind::merge, 0, {0, 3}, attention(1), attention(0));
  const Work work = work_of(t, batch, merge);
  SUBCASE("nominal: its bytes at memory's pace") {
    CHECK(CostModel(t, {profile}).compute_time(batch, merge).value() ==
          doctest::Approx(work.streamed_bytes / 1e8));
  }
  SUBCASE("measured: 1 us, and 2 ns a byte") {
    profile.rate[static_cast<std::size_t>(TaskKind::merge)] = {1e-6, {{1.0, 2e-9}}};
    CHECK(CostModel(t, {profile}).compute_time(batch, merge).value() ==
          doctest::Approx(1e-6 + 2e-9 * work.streamed_bytes));
  }
  SUBCASE("lacking: refused where a task needs it, and only there") {
    for (const TaskKind kind :
         {TaskKind::merge, TaskKind::select, TaskKind::gather, TaskKind::score}) {
      CAPTURE(to_string(kind));
      DeviceProfile old = profile;
      old.source = "old.json";
      old.rate[static_cast<std::size_t>(kind)] = {};
      old = parse_profile_json(to_json(old), "old.json");
      const CostModel costs(t, {old});
      CHECK(costs.compute_time(0, TaskKind::add, work).value() > 0.0);
      CHECK(test::error_of([&] { (void)costs.compute_time(0, kind, work); }) ==
            "profile 'old.json': has no rate for '" + std::string(to_string(kind)) +
                "', which this plan needs, expected the one that 'tandem profile' measures; "
                "measure the profile again");
    }
    Work half = work;
    half.format = rated_as(CacheFormat::f16);
    profile.caches.front().score.reset();
    const std::string message = test::error_of(
        [&] { (void)CostModel(t, {profile}).compute_time(0, TaskKind::score, half); });
    CHECK(message.find("'score' over a cache in f16") != std::string::npos);
    CHECK(message.find("'tandem profile --cache-type f16'") != std::string::npos);
  }
}

TEST_CASE("model/storage: a device may have fewer blocks of the cache than positions take") {
  BufferDeclaration cache{.name = {BufferKind::key_value},
                          .rows = RowCount::positions,
                          .columns = 10,
                          .layers = {0, 3}};
  const Extents extents{.rows = 100, .positions = 300, .sequences = 1};
  CHECK(cache.elements(extents) == 320 * 10);
  cache.blocks = 2;
  CHECK(cache.elements(extents) == 128 * 10);
  CHECK(cache.bytes(extents) == 3 * 128 * 10 * 4);
  cache.blocks = 9;
  CHECK(cache.elements(extents) == 320 * 10);
}

TEST_CASE(
    "model/accesses: rows that a device caches are all, or where blocks are declared, its own") {
  TaskGraph graph(Batch{{{.rows = 10}}});
  const auto projects = [&](DeviceIndex device, Range rows) {
    graph.add(task(TaskKind::project_qkv, device, rows, {BufferKind::normed}, kQuery), {});
  };
  const auto caches = [&](DeviceIndex device, std::int16_t blocks) {
    graph.declare(device, {.name = {BufferKind::key_value},
                           .rows = RowCount::positions,
                           .columns = 12,
                           .blocks = blocks});
  };
  for (const DeviceIndex device : {0, 1}) caches(device, 1);
  caches(2, 0);
  projects(0, {0, 3});
  projects(0, {3, 4});
  projects(2, {4, 6});
  CHECK(cached_rows(graph, 0) == Range{0, 4});
  CHECK(cached_rows(graph, 1) == Range{});
  CHECK(cached_rows(graph, 2) == Range{0, 10});
  graph.add(sent(0, 1, {7, 9}, {BufferKind::key_value}, {BufferKind::key_value}, 12), {});
  CHECK(cached_rows(graph, 1) == Range{7, 9});
  projects(0, {5, 6});
  CHECK_THROWS_AS(static_cast<void>(cached_rows(graph, 0)), std::logic_error);
}

}  // namespace
}  // namespace tandem::model::merge_tasks_test
