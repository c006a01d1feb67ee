#include "model/graph/channel_slots.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::model {
namespace {

// A slot is free for a message if the one before it is surely gone: from a receiver's slot by the
// time that anything after the message can be waited for, from a sender's by the time that the
// message is captured.
struct Stay {
  TaskIndex needed;   // the slot, from here
  TaskIndex gone;     // the message, by then
  bool waits = true;  // in a slot of this channel; a relay is sent from the slot that it arrived in
};

std::int32_t assign(std::span<SlottedMessage> messages, const std::vector<Stay>& stays) {
  struct Slot {
    TaskIndex busy_until;
    std::int32_t last;
  };
  std::vector<Slot> slots;
  const std::ptrdiff_t waiting = std::ranges::count(stays, true, &Stay::waits);
  const auto least = static_cast<std::size_t>(std::min<std::ptrdiff_t>(2, waiting));
  for (std::size_t m = 0; m < messages.size(); ++m) {
    if (!stays[m].waits) continue;
    auto slot = std::min_element(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) {
      return std::tie(a.busy_until, a.last) < std::tie(b.busy_until, b.last);
    });
    const bool grow = slots.size() < least || slot->busy_until >= stays[m].needed;
    if (grow) slot = slots.insert(slots.end(), Slot{.busy_until = -1, .last = -1});
    messages[m].slot = static_cast<std::int32_t>(slot - slots.begin());
    messages[m].previous = slot->last;
    *slot = {.busy_until = stays[m].gone, .last = static_cast<std::int32_t>(m)};
  }
  return static_cast<std::int32_t>(slots.size());
}

// By message: when the last relay of it is gone; kBegin of others.
using PassedOn = std::vector<TaskIndex>;

std::vector<Stay> stays_of(const TaskGraph& graph, const ChannelSlots& channel,
                           const MessageSchedule& schedule, PassedOn& passed_on) {
  const auto is_direct = [&](const SlottedMessage& message) {
    return moves_weights(graph.tasks()[static_cast<std::size_t>(message.task)]);
  };
  std::vector<Stay> stays;
  stays.reserve(channel.messages.size());
  for (const SlottedMessage& message : channel.messages) {
    const auto i = static_cast<std::size_t>(message.task);
    stays.push_back(
        {.needed = channel.outgoing ? schedule.capture[i] : message.task,
         .gone =
             channel.outgoing ? schedule.delivery[i] : std::max(schedule.delivery[i], passed_on[i]),
         .waits = !is_direct(message) && (!channel.outgoing || !schedule.is_relay(message.task))});
  }
  if (!channel.outgoing) return stays;
  // The receiver has surely taken a message off the network when it, or one behind it, is
  // delivered.
  for (std::size_t m = stays.size(); m-- > 1;)
    stays[m - 1].gone = std::min(stays[m - 1].gone, stays[m].gone);
  for (std::size_t m = 0; m < stays.size(); ++m) {
    const TaskIndex source = schedule.source[static_cast<std::size_t>(channel.messages[m].task)];
    if (source == MessageSchedule::kCaptured) continue;
    TaskIndex& last = passed_on[static_cast<std::size_t>(source)];
    last = std::max(last, stays[m].gone);
  }
  return stays;
}

// The channel ends of a device, by (incoming, peer): outgoing ones first.
using Ends = std::map<std::pair<bool, DeviceIndex>, ChannelSlots>;

void add(Ends& ends, const Task& task, TaskIndex index, bool outgoing) {
  const DeviceIndex peer = outgoing ? task.peer : task.device;
  ChannelSlots& end = ends[{!outgoing, peer}];
  end.peer = peer;
  end.outgoing = outgoing;
  const std::int64_t bytes = payload_bytes(task);
  end.messages.push_back({.task = index, .bytes = bytes});
  if (!moves_weights(task)) end.slot_bytes = std::max(end.slot_bytes, bytes);
}

// Moves the ends into the result.
std::vector<ChannelSlots> with_slots(const TaskGraph& graph, const MessageSchedule& schedule,
                                     Ends& ends, PassedOn& passed_on,
                                     std::int32_t steps_in_flight) {
  std::vector<ChannelSlots> channels;
  channels.reserve(ends.size());
  for (auto& [key, end] : ends) {
    end.slots = steps_in_flight * assign(end.messages, stays_of(graph, end, schedule, passed_on));
    channels.push_back(std::move(end));
  }
  return channels;
}

}  // namespace

std::vector<ChannelSlots> channel_slots(const TaskGraph& graph, const MessageSchedule& schedule,
                                        DeviceIndex device, std::int32_t steps_in_flight) {
  require(steps_in_flight >= 1, "channel_slots: at least one step in flight");
  Ends ends;
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
    if (task.lane != LaneKind::channel) continue;
    if (task.device == device || task.peer == device) add(ends, task, i, task.device == device);
  }
  PassedOn passed_on(static_cast<std::size_t>(graph.size()), MessageSchedule::kBegin);
  return with_slots(graph, schedule, ends, passed_on, steps_in_flight);
}

std::vector<std::vector<ChannelSlots>> channel_slots_by_device(const TaskGraph& graph,
                                                               const MessageSchedule& schedule,
                                                               std::size_t devices,
                                                               std::int32_t steps_in_flight) {
  require(steps_in_flight >= 1, "channel_slots: at least one step in flight");
  std::vector<Ends> ends(devices);
  const auto add_end = [&](DeviceIndex device, const Task& task, TaskIndex index, bool outgoing) {
    const auto d = static_cast<std::size_t>(device);
    if (d < devices) add(ends[d], task, index, outgoing);
  };
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
    if (task.lane != LaneKind::channel) continue;
    add_end(task.device, task, i, true);
    if (task.peer != task.device) add_end(task.peer, task, i, false);
  }
  // A message is passed on by its one receiver, so the devices share no entry.
  PassedOn passed_on(static_cast<std::size_t>(graph.size()), MessageSchedule::kBegin);
  std::vector<std::vector<ChannelSlots>> slots;
  slots.reserve(devices);
  for (Ends& of_device : ends)
    slots.push_back(with_slots(graph, schedule, of_device, passed_on, steps_in_flight));
  return slots;
}

}  // namespace tandem::model
