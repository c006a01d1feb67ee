#include "model/graph/channel_slots.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace tandem::model::channel_slots_test {
namespace {

Task transfer(DeviceIndex from, DeviceIndex to, std::int32_t columns) {
  return {.kind = TaskKind::transfer,
          .lane = LaneKind::channel,
          .device = from,
          .peer = to,
          .rows = {0, 3},
          .columns = {0, columns},
          .input = {BufferKind::partial, 0},
          .output = {BufferKind::partial, 0}};
}

TEST_CASE("model/channel slots: two for a channel of many messages, of the largest's size") {
  TaskGraph graph(Batch{.segments = {{.rows = 3}}});
  TaskIndex last = -1;
  for (const std::int32_t columns : {4, 7, 5}) {
    const Task task = transfer(0, 1, columns);
    last = last < 0 ? graph.add(task, {}) : graph.add(task, {last});
    Task use;
    use.device = 1;
    use.rows = {0, 3};
    use.columns = {0, columns};
    use.input = use.output = {BufferKind::partial, 0};
    last = graph.add(use, {last});
    last = graph.add(transfer(1, 0, 2), {last});
  }
  const MessageSchedule schedule = message_schedule(graph);
  const std::vector<ChannelSlots> ends = channel_slots(graph, schedule, 0);
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].outgoing);
  CHECK_FALSE(ends[1].outgoing);
  CHECK(ends[0].slots == 2);
  CHECK(ends[0].slot_bytes == 4 * 3 * 7);
  CHECK(ends[0].bytes() == 4 * 2 * 3 * 7);
  CHECK(ends[1].bytes() == 4 * 2 * 3 * 2);
  SUBCASE("steps in flight have slots of their own") {
    const std::vector<ChannelSlots> more = channel_slots(graph, schedule, 0, 3);
    CHECK(more[0].slots == 3 * 2);
    for (std::size_t m = 0; m < ends[0].messages.size(); ++m)
      CHECK(more[0].messages[m].slot == ends[0].messages[m].slot);
    CHECK_THROWS_AS((void)channel_slots(graph, schedule, 0, 0), std::logic_error);
  }
}

// A ring all-gather of `devices` chunks, in which each device passes on what arrived, and a
// computation on each after it.
TaskGraph ring(DeviceIndex devices, int rounds) {
  TaskGraph graph(Batch{.segments = {{.rows = 3}}});
  std::vector<TaskIndex> arrived(static_cast<std::size_t>(devices), -1);
  for (int round = 0; round < rounds; ++round) {
    for (DeviceIndex step = 0; step + 1 < devices; ++step) {
      std::vector<TaskIndex> next(arrived.size(), -1);
      for (DeviceIndex d = 0; d < devices; ++d) {
        const DeviceIndex peer = (d + 1) % devices;
        Task task = transfer(d, peer, 8);
        const DeviceIndex chunk = (d + devices - step) % devices;
        task.columns = {8 * chunk, 8 * (chunk + 1)};
        const TaskIndex before = arrived[static_cast<std::size_t>(d)];
        TaskIndex& sent = next[static_cast<std::size_t>(peer)];
        sent = before < 0 ? graph.add(task, {}) : graph.add(task, {before});
      }
      arrived = next;
    }
    for (DeviceIndex d = 0; d < devices; ++d) {
      Task use;
      use.device = d;
      use.rows = {0, 3};
      use.columns = {0, 8 * devices};
      use.input = use.output = {BufferKind::partial, 0};
      TaskIndex& last = arrived[static_cast<std::size_t>(d)];
      last = graph.add(use, {last});
    }
  }
  return graph;
}

TEST_CASE("model/channel slots: of all devices at once, they are those of each device") {
  for (const DeviceIndex devices : {2, 3, 7}) {
    const TaskGraph graph = ring(devices, 3);
    const MessageSchedule schedule = message_schedule(graph);
    CHECK((devices == 2) == (std::ranges::count_if(schedule.source, [](TaskIndex source) {
                               return source != MessageSchedule::kCaptured;
                             }) == 0));
    const auto all =
        channel_slots_by_device(graph, schedule, static_cast<std::size_t>(devices) + 1, 2);
    REQUIRE(std::ssize(all) == devices + 1);
    CHECK(all.back().empty());
    for (DeviceIndex d = 0; d < devices; ++d) {
      CAPTURE(d);
      const std::vector<ChannelSlots> one = channel_slots(graph, schedule, d, 2);
      const std::vector<ChannelSlots>& same = all[static_cast<std::size_t>(d)];
      REQUIRE(one.size() == same.size());
      for (std::size_t end = 0; end < one.size(); ++end) {
        CHECK(one[end].peer == same[end].peer);
        CHECK(one[end].outgoing == same[end].outgoing);
        CHECK(one[end].slots == same[end].slots);
        CHECK(one[end].slot_bytes == same[end].slot_bytes);
        REQUIRE(one[end].messages.size() == same[end].messages.size());
        for (std::size_t m = 0; m < one[end].messages.size(); ++m) {
          CHECK(one[end].messages[m].task == same[end].messages[m].task);
          CHECK(one[end].messages[m].slot == same[end].messages[m].slot);
          CHECK(one[end].messages[m].previous == same[end].messages[m].previous);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::model::channel_slots_test
