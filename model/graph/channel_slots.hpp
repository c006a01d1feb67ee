#pragma once

// The slots that messages of a channel wait in at both ends: at the sender until they are sent, at
// the receiver until they are delivered and passed on. (A relay has none at its sender: it is sent
// from the slot in which its source arrived.) This is the one rule that predicted memory, the
// executor's allocation and its lane programs share.

#include <cstdint>
#include <vector>

#include "model/graph/message_schedule.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::model {

// A message as one end sees it.
struct SlottedMessage {
  TaskIndex task = 0;      // the transfer
  std::int64_t bytes = 0;  // payload
  // Among those of its step; -1: it needs none, as relays at their sender, and weights, which go
  // from where they lie to where they are used (moves_weights).
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

// How many steps may be under way at once.
inline constexpr std::int32_t kStepsInFlight = 1;

// Returns the ends of channels that `device` has in `graph`: its outgoing channels by peer,
// ascending, then the incoming ones. `schedule` has the entries of this device and of those that it
// sends to.
//
// Slots suffice so that no cyclic waiting can arise, even if the network itself holds nothing and a
// receiver takes a message only when it wants it or one behind it: a receiver has room for every
// message that can arrive before the one being waited for; a sender captures into a slot whose last
// message is surely taken once every task before the capture, on any device, is done; a message
// that is passed on leaves its receiver's slot when the relay's receiver has surely taken that.
// Channels with more than one message that needs a slot have at least two: one on its way, one
// being filled or emptied. Steps in flight share no slot. Throws logic_error unless
// `steps_in_flight` is at least 1.
[[nodiscard]] std::vector<ChannelSlots> channel_slots(
    const TaskGraph& graph, const MessageSchedule& schedule, DeviceIndex device,
    std::int32_t steps_in_flight = kStepsInFlight);

}  // namespace tandem::model
