#pragma once

// Where a device's computing thread takes up its messages: the one rule that predictors and
// executor share.
//
// The payload of a transfer is copied out of its buffer at the sender (a capture) and into a buffer
// at the receiver (a delivery), both by the threads that compute, between their tasks:
//   captured as soon as the tasks that the transfer depends on, or that write its rows and columns
//   of its buffer, have run, and before any later task can overwrite it, in the order of its
//   channel; what is rounded to travel is rounded in its buffer then;
//   delivered as late as it can be: before the first later task of the device that depends on it or
//   touches its rows and columns, so that the device computes while the message travels, and not
//   after a later arrival in the same buffer; at the end of the step if nothing uses it.

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "model/graph/task_graph.hpp"

namespace tandem::model {

// When each transfer of a graph is captured and delivered, by task. Where several things have one
// place they are done in this order: deliveries, the task of that place, captures; each in order of
// their own indices. This order of all devices together is one in which everything comes after what
// it depends on. An example: device 0 runs task 3, whose result transfer 4 takes to device 1, whose
// task 7 uses it; then capture[4] is 3, and delivery[4] is 7.
struct MessageSchedule {
  static constexpr TaskIndex kBegin = -1;  // of the step
  static constexpr TaskIndex kEnd = std::numeric_limits<TaskIndex>::max();
  // After this task; at most the transfer's index. Of a relay: the message that it passes on, or a
  // later task that something before it in its channel is captured after.
  std::vector<TaskIndex> capture{};
  std::vector<TaskIndex> delivery{};  // before this task, or kEnd; more than the transfer's index
  std::vector<TaskIndex> source{};    // of a relay: the message that it passes on; else kCaptured
  static constexpr TaskIndex kCaptured = -1;
  [[nodiscard]] bool is_relay(TaskIndex transfer) const {
    return source[static_cast<std::size_t>(transfer)] != kCaptured;
  }
};

[[nodiscard]] MessageSchedule message_schedule(const TaskGraph& graph);
// Finds only what `devices` (none below 0) capture and deliver; the other entries are 0.
[[nodiscard]] MessageSchedule message_schedule(const TaskGraph& graph,
                                               std::span<const DeviceIndex> devices);

}  // namespace tandem::model
