#pragma once

// The slots in which a channel's messages wait: at the sender until they are sent, at the receiver
// until they are delivered and passed on. A relay has no slot at its sender: it is sent from the
// slot in which its source arrived. Memory prediction, the executor's allocation and its lane
// programs share this rule.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/graph/message_schedule.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::model {

// A message as one end sees it.
struct SlottedMessage {
  TaskIndex task = 0;      // the transfer
  std::int64_t bytes = 0;  // payload
  // Among those of its step; -1: it needs none. Relays need none at their sender, and transfers of
  // weights none at all: they travel directly between their memory places (moves_weights).
  std::int32_t slot = -1;
  std::int32_t previous = -1;  // the message, by position, that had the slot before; -1: none
};

// One end of a channel in a step.
struct ChannelSlots {
  DeviceIndex peer = 0;
  bool outgoing = false;
  std::vector<SlottedMessage> messages{};  // in program order, which is the order on the wire
  std::int32_t slots = 0;                  // of all steps in flight, each of which has as many
  std::int64_t slot_bytes = 0;             // the largest message that waits in one
  [[nodiscard]] std::int64_t bytes() const { return slots * slot_bytes; }
};

// The default number of steps in flight.
inline constexpr std::int32_t kStepsInFlight = 1;

// Returns the channel ends of `device` in `graph`: outgoing channels by peer, ascending, then
// incoming ones. `schedule` needs the entries of this device and of the devices it sends to.
//
// There are enough slots to exclude deadlock even if the network buffers nothing and a receiver
// takes a message only when it wants that message or a later one:
//   - a receiver has room for every message that can arrive before the one it waits for;
//   - a sender captures into a slot only if the slot's last message has certainly been taken once
//     every task before the capture, on any device, is done;
//   - a message that is passed on leaves its receiver's slot when the relay's receiver has
//     certainly taken it.
// Channels with more than one message in slots have at least two: one in flight, one being filled
// or emptied. Steps in flight share no slot. Throws logic_error unless `steps_in_flight` >= 1.
[[nodiscard]] std::vector<ChannelSlots> channel_slots(
    const TaskGraph& graph, const MessageSchedule& schedule, DeviceIndex device,
    std::int32_t steps_in_flight = kStepsInFlight);

// Returns the channel ends of each of the first `devices` devices, as above, after one pass over
// the graph's tasks. `schedule` needs the entries of all devices.
[[nodiscard]] std::vector<std::vector<ChannelSlots>> channel_slots_by_device(
    const TaskGraph& graph, const MessageSchedule& schedule, std::size_t devices,
    std::int32_t steps_in_flight = kStepsInFlight);

}  // namespace tandem::model
