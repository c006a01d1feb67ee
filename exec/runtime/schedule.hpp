#pragma once

// What one device does in a step, worked out once for a graph and used for every step of its shape.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/task_graph.hpp"

namespace tandem::exec {

// One thing that the computing thread does. It does them in order; that order alone decides which
// values a task sees, whenever messages come and go.
struct Action {
  enum class Kind : std::uint8_t {
    run,      // execute a cpu task
    capture,  // take the payload of an outgoing transfer and hand it to its channel
    deliver,  // wait for an incoming transfer and write it into its buffer
  };
  Kind kind = Kind::run;
  model::TaskIndex task = 0;
  std::int32_t channel = -1;   // of `outgoing` or `incoming`
  std::int32_t position = -1;  // in the channel's messages
};

// A transfer as one end sees it. Payloads wait in slots: the sender's until they are sent, the
// receiver's until they are delivered.
struct ChannelMessage {
  model::TaskIndex task = 0;
  std::size_t floats = 0;
  std::int32_t slot = 0;
  std::int32_t previous = -1;  // the message that had the slot before; -1: none
};

struct ChannelSchedule {
  model::DeviceIndex peer = 0;
  std::vector<ChannelMessage> messages;  // in program order, which is the order on the wire
  std::int32_t slots = 0;
  std::size_t slot_floats = 0;  // the largest message
};

struct Schedule {
  std::vector<Action> actions;
  std::vector<ChannelSchedule> outgoing;  // by peer, ascending
  std::vector<ChannelSchedule> incoming;
  std::size_t records = 0;  // of TaskTime that a step makes
};

// The schedule of `device`, equivalent to executing the whole graph serially in index order:
//   a cpu task is run in index order;
//   a payload is captured as soon as the tasks that it depends on, or that write its buffer, have
//   run, and before any later task can overwrite it;
//   an arrival is delivered as late as it can be: before the first later task that depends on it or
//   touches its buffer, so that the device computes while the message travels.
// Slots suffice for every message that can arrive before the one being waited for, so that no
// cyclic waiting can arise; incoming channels with more than one message have at least two.
// A task that depends on a transfer which this device sends may start when its payload is captured.
// Throws Error if the graph makes a task of this device depend on one that it cannot know to be
// done, or uses the disk lane.
[[nodiscard]] Schedule make_schedule(const model::TaskGraph& graph, model::DeviceIndex device);

}  // namespace tandem::exec
