#pragma once

// When a device's computing thread copies its messages: one rule for predictors and the executor.
//
// The threads that compute copy the payload of a transfer between their tasks: out of its buffer at
// the sender (a capture), and into a buffer at the receiver (a delivery).
//   A capture happens as soon as the tasks have run that the transfer depends on or that write its
//   rows and columns, and before any later task can overwrite them. Captures of a channel keep the
//   order of its transfers. Values that travel rounded are rounded in their buffer then.
//   A delivery happens as late as possible, so that the device computes while the message travels:
//   before the first later task of the device that depends on it or uses its rows and columns, but
//   not after a later arrival in the same buffer; at the end of the step if nothing uses it.

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "model/graph/task_graph.hpp"

namespace tandem::model {

// The place of each transfer's capture and delivery among the tasks of a graph. At one place,
// deliveries come first, then the task, then captures, each by index. This order, over all devices,
// respects every dependency. Example: transfer 4 sends the result of device 0's task 3 to device 1,
// whose task 7 uses it; then capture[4] is 3 and delivery[4] is 7.
struct MessageSchedule {
  static constexpr TaskIndex kBegin = -1;  // of the step
  static constexpr TaskIndex kEnd = std::numeric_limits<TaskIndex>::max();
  // After this task; at most the transfer's index. Of a relay: the message that it passes on, or a
  // later task after which an earlier transfer of its channel is captured.
  std::vector<TaskIndex> capture{};
  std::vector<TaskIndex> delivery{};  // before this task, or kEnd; more than the transfer's index
  std::vector<TaskIndex> source{};    // of a relay: the message that it passes on; else kCaptured
  static constexpr TaskIndex kCaptured = -1;
  [[nodiscard]] bool is_relay(TaskIndex transfer) const {
    return source[static_cast<std::size_t>(transfer)] != kCaptured;
  }
};

[[nodiscard]] MessageSchedule message_schedule(const TaskGraph& graph);
// Fills only the captures and deliveries of `devices` (none below 0); the other entries are 0.
[[nodiscard]] MessageSchedule message_schedule(const TaskGraph& graph,
                                               std::span<const DeviceIndex> devices);

}  // namespace tandem::model
