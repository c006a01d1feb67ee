#include "exec/runtime/lane_programs.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::exec::lane_programs_test {
namespace {

using model::BufferKind;
using model::BufferRef;
using model::LaneKind;
using model::Task;
using model::TaskGraph;
using model::TaskIndex;
using model::TaskKind;

constexpr BufferRef kHidden{.kind = BufferKind::hidden};
constexpr BufferRef kNormed{.kind = BufferKind::normed};
constexpr BufferRef kPartial{.kind = BufferKind::partial};
constexpr BufferRef kReceive{.kind = BufferKind::receive};

Task add(model::DeviceIndex device, BufferRef from, BufferRef to) {
  Task task;
  task.kind = TaskKind::add;
  task.device = device;
  task.rows = {0, 1};
  task.columns = {0, 8};
  task.input = from;
  task.output = to;
  return task;
}

Task transfer(model::DeviceIndex from, model::DeviceIndex to, BufferRef input, BufferRef output) {
  Task task = add(from, input, output);
  task.kind = TaskKind::transfer;
  task.lane = LaneKind::channel;
  task.peer = to;
  return task;
}

TaskGraph graph() { return TaskGraph(model::Batch{{{.sequence = 0, .past = 0, .rows = 1}}}); }

// "r0 c2 d1": run, capture, deliver and their tasks.
std::string text_of(const LanePrograms& programs) {
  std::string text;
  for (const Action& action : programs.actions) {
    const char* kind = action.kind == Action::Kind::run       ? "r"
                       : action.kind == Action::Kind::capture ? "c"
                                                              : "d";
    text += (text.empty() ? "" : " ") + std::string(kind) + std::to_string(action.task);
  }
  return text;
}

TEST_CASE("exec/lane_programs: a payload is captured when what writes its buffer has run") {
  TaskGraph g = graph();
  const TaskIndex make = g.add(add(0, kHidden, kPartial), {});
  g.add(add(0, kHidden, kNormed), {});
  g.add(transfer(0, 1, kPartial, kReceive), {make});
  g.add(add(0, kNormed, kPartial), {});  // overwrites what was captured
  CHECK(text_of(make_lane_programs(g, 0)) == "r0 c2 r1 r3");
  CHECK(text_of(make_lane_programs(g, 1)) == "d2");
}

TEST_CASE(
    "exec/lane_programs: an arrival is delivered before the first task that touches its buffer") {
  TaskGraph g = graph();
  const TaskIndex sent = g.add(transfer(1, 0, kPartial, kReceive), {});
  g.add(add(0, kHidden, kNormed), {});  // may run meanwhile
  SUBCASE("by dependency") {
    g.add(add(0, kReceive, kHidden), {sent});
    CHECK(text_of(make_lane_programs(g, 0)) == "r1 d0 r2");
  }
  SUBCASE("without one, too") {
    g.add(add(0, kReceive, kHidden), {});
    CHECK(text_of(make_lane_programs(g, 0)) == "r1 d0 r2");
  }
  SUBCASE("and at the end of the step if nothing touches it") {
    CHECK(text_of(make_lane_programs(g, 0)) == "r1 d0");
  }
}

TEST_CASE("exec/lane_programs: arrivals in one buffer are delivered in order") {
  TaskGraph g = graph();
  g.add(transfer(1, 0, kPartial, kReceive), {});
  const TaskIndex second = g.add(transfer(1, 0, kPartial, kReceive), {});
  g.add(add(0, kHidden, kNormed), {second});
  g.add(add(0, kReceive, kHidden), {});
  CHECK(text_of(make_lane_programs(g, 0)) == "d0 d1 r2 r3");
}

TEST_CASE("exec/lane_programs: what arrives is passed on without a capture, from its slot") {
  TaskGraph g = graph();
  const TaskIndex in = g.add(transfer(1, 0, kPartial, kReceive), {});
  const TaskIndex out = g.add(transfer(0, 2, kReceive, kReceive), {in});
  g.add(add(0, kHidden, kNormed), {});
  const LanePrograms programs = make_lane_programs(g, 0);
  CHECK(text_of(programs) == "d0 r2");
  CHECK(programs.incoming.at(0).passes_on);
  const ChannelMessage& relay = programs.outgoing.at(0).messages.at(0);
  CHECK(relay.task == out);
  CHECK(relay.slot == -1);
  CHECK(relay.source.channel == 0);
  CHECK(relay.source.position == 0);
  CHECK(programs.outgoing[0].slots == 0);
  CHECK(programs.records == 4);  // both messages, one delivery, one run
  CHECK(programs.relayed_bytes == 32.0);
}

TEST_CASE("exec/lane_programs: only what one message has brought, unchanged, is passed on") {
  TaskGraph g = graph();
  const TaskIndex in = g.add(transfer(1, 0, kPartial, kReceive), {});
  const auto captured = [&] { return text_of(make_lane_programs(g, 0)); };
  SUBCASE("not if a task has written to it") {
    const TaskIndex summed = g.add(add(0, kHidden, kReceive), {in});
    g.add(transfer(0, 2, kReceive, kReceive), {summed});
    CHECK(captured() == "d0 r1 c2");
  }
  SUBCASE("not even if the transfer does not say so") {
    g.add(add(0, kHidden, kReceive), {});
    g.add(transfer(0, 2, kReceive, kReceive), {in});
    CHECK(captured() == "d0 r1 c2");
  }
  SUBCASE("not if another message has arrived in it since") {
    Task half = transfer(2, 0, kPartial, kReceive);
    half.columns = {4, 8};
    g.add(half, {});
    g.add(transfer(0, 2, kReceive, kReceive), {in});
    CHECK(captured() == "d0 d1 c2");
  }
  SUBCASE("not a part of it") {
    Task half = transfer(0, 2, kReceive, kReceive);
    half.columns = {4, 8};
    g.add(half, {in});
    CHECK(captured() == "d0 c1");
  }
  SUBCASE("not if it shall wait for something else, too") {
    const TaskIndex other = g.add(add(0, kHidden, kNormed), {});
    g.add(transfer(0, 2, kReceive, kReceive), {in, other});
    CHECK(captured() == "r1 d0 c2");
  }
  SUBCASE("to several devices, and back, from the same slot") {
    g.add(transfer(0, 2, kReceive, kReceive), {in});
    g.add(transfer(0, 1, kReceive, kReceive), {in});
    CHECK(captured() == "d0");
    CHECK(make_lane_programs(g, 0).incoming.at(0).messages.at(0).relays.size() == 2);
  }
}

TEST_CASE("exec/lane_programs: what is captured behind a relay goes behind it") {
  TaskGraph g = graph();
  g.add(add(0, kHidden, kPartial), {});                                // 0
  g.add(add(0, kHidden, kNormed), {});                                 // 1
  const TaskIndex in = g.add(transfer(1, 0, kPartial, kReceive), {});  // 2
  g.add(transfer(0, 2, kReceive, kReceive), {in});                     // 3: a relay
  g.add(transfer(0, 2, kPartial, kPartial), {0});                      // 4: ready long before
  const LanePrograms programs = make_lane_programs(g, 0);
  CHECK(text_of(programs) == "r0 r1 c4 d2");
  CHECK(programs.outgoing.at(0).messages.at(0).task == 3);
  CHECK(programs.outgoing.at(0).slots == 1);
}

TEST_CASE("exec/lane_programs: messages of a channel are captured in program order") {
  TaskGraph g = graph();
  g.add(add(0, kHidden, kNormed), {});             // 0
  g.add(add(0, kHidden, kPartial), {});            // 1
  g.add(transfer(0, 1, kPartial, kReceive), {1});  // 2
  g.add(transfer(0, 1, kNormed, kNormed), {0});    // 3: ready earlier, but behind 2
  CHECK(text_of(make_lane_programs(g, 0)) == "r0 r1 c2 c3");
}

TEST_CASE("exec/lane_programs: slots hold what can arrive before the message that is waited for") {
  // Device 1 sends five messages which device 0 touches only after waiting for device 2.
  TaskGraph g = graph();
  std::vector<TaskIndex> early;
  for (std::int16_t slot = 0; slot < 5; ++slot) {
    early.push_back(g.add(transfer(1, 0, kPartial, {BufferKind::receive, slot}), {}));
  }
  const TaskIndex late = g.add(transfer(2, 0, kPartial, {BufferKind::receive, 5}), {});
  g.add(add(0, {BufferKind::receive, 5}, kHidden), {late});
  for (std::int16_t slot = 0; slot < 5; ++slot) {
    g.add(add(0, {BufferKind::receive, slot}, kHidden), {early[static_cast<std::size_t>(slot)]});
  }
  const LanePrograms programs = make_lane_programs(g, 0);
  REQUIRE(programs.incoming.size() == 2);
  CHECK(programs.incoming[0].peer == 1);
  CHECK(programs.incoming[0].slots == 5);
  CHECK(programs.incoming[1].slots == 1);
}

TEST_CASE("exec/lane_programs: in-order use needs two slots however many messages there are") {
  TaskGraph g = graph();
  for (int i = 0; i < 20; ++i) {
    const TaskIndex in = g.add(transfer(1, 0, kPartial, kReceive), {});
    const TaskIndex out = g.add(add(0, kReceive, kHidden), {in});
    g.add(transfer(0, 1, kHidden, kPartial), {out});
  }
  const LanePrograms programs = make_lane_programs(g, 0);
  CHECK(programs.incoming.at(0).slots == 2);
  CHECK(programs.outgoing.at(0).slots == 2);
  CHECK(programs.records == 100);  // with a copy of each of the 40 messages
}

TEST_CASE("exec/lane_programs: a sender has slots for all that its peer may not have taken yet") {
  // Device 0 has seven payloads ready at once, of which device 1 takes none before device 2 has
  // forwarded what device 0 sends it only then.
  TaskGraph g = graph();
  g.add(add(0, kHidden, kPartial), {});
  std::vector<TaskIndex> sent;
  for (std::int16_t slot = 0; slot < 7; ++slot) {
    sent.push_back(g.add(transfer(0, 1, kPartial, {BufferKind::receive, slot}), {}));
  }
  const TaskIndex made = g.add(add(0, kHidden, kNormed), {});
  const TaskIndex there = g.add(transfer(0, 2, kNormed, kReceive), {made});
  const TaskIndex forwarded = g.add(transfer(2, 1, kReceive, kNormed), {there});
  g.add(add(1, kNormed, kHidden), {forwarded});
  for (std::int16_t slot = 0; slot < 7; ++slot) {
    g.add(add(1, {BufferKind::receive, slot}, kHidden), {sent[static_cast<std::size_t>(slot)]});
  }
  const LanePrograms programs = make_lane_programs(g, 0);
  REQUIRE(programs.outgoing.size() == 2);
  CHECK(programs.outgoing[0].slots == 7);
  CHECK(programs.outgoing[1].slots == 1);
}

TEST_CASE("exec/lane_programs: what a task touches besides its operands orders transfers too") {
  const auto projection = [] {
    Task task;
    task.kind = TaskKind::project_qkv;
    task.layer = 0;
    task.rows = {0, 1};
    task.columns = {0, 1};
    task.input = kNormed;
    task.output = {.kind = BufferKind::query};
    return task;
  };
  constexpr BufferRef kAttention{.kind = BufferKind::attention};
  SUBCASE(
      "the attention buffer, in which keys are staged, arrives after the projection before it") {
    TaskGraph g = graph();
    g.add(projection(), {});
    g.add(transfer(1, 0, kPartial, kAttention), {});
    g.add(add(0, kAttention, kHidden), {});
    CHECK(text_of(make_lane_programs(g, 0)) == "r0 d1 r2");
  }
  SUBCASE("and before the projection after it") {
    TaskGraph g = graph();
    g.add(transfer(1, 0, kPartial, kAttention), {});
    g.add(projection(), {});
    CHECK(text_of(make_lane_programs(g, 0)) == "d0 r1");
  }
  SUBCASE("and is captured after the projection before it, and before the one after it") {
    TaskGraph g = graph();
    g.add(projection(), {});
    g.add(transfer(0, 1, kAttention, kPartial), {});
    g.add(projection(), {});
    CHECK(text_of(make_lane_programs(g, 0)) == "r0 c1 r2");
  }
}

TEST_CASE("exec/lane_programs: refuses what a device cannot know") {
  TaskGraph g = graph();
  const TaskIndex elsewhere = g.add(add(1, kHidden, kPartial), {});
  g.add(add(0, kHidden, kNormed), {elsewhere});
  CHECK_THROWS_WITH_AS(make_lane_programs(g, 0),
                       doctest::Contains("depends on task 0 of device 1, expected a transfer"),
                       Error);
}

}  // namespace
}  // namespace tandem::exec::lane_programs_test
