#include "model/graph/channel_slots.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

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

}  // namespace
}  // namespace tandem::model::channel_slots_test
