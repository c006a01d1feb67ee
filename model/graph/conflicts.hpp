#pragma once

// Detects accesses to storage that a graph leaves unordered.

#include <optional>
#include <string>
#include <vector>

#include "model/graph/task_graph.hpp"

namespace tandem::model {

// Two tasks conflict if they use the same elements of a device's storage and one of them writes. A
// graph orders them if the later one, by index, depends on the earlier one, directly or through
// other tasks. Every lane runs its tasks in the order of their indices, so tasks of one cpu lane
// are always ordered; a graph has to order messages and loads. Detected faults:
//   - a task reads or overwrites the payload of a message without waiting for it, or a message
//   sends
//     the result of a task or of another message without waiting for it;
//   - a task uses a block of streamed weights without waiting for its load, or after its release; a
//     load does not wait for the release of the block whose memory it reuses, which is as many
//     loads before it as the device records events, the step before included;
//   - with several steps in flight: a task of the epilogue reads data that neither the epilogue nor
//     a message delivered in it has made. Between the epilogue and the rest of its step the lane
//     runs other steps, which use the same buffers but other sequences' caches.
// Not checked: that a message is captured before its buffer is overwritten, and delivered after the
// previous contents have been used. The message schedule guarantees both whatever the dependencies
// (model/graph/message_schedule.hpp). Returns a description of the first fault, or nothing.
[[nodiscard]] std::optional<std::string> find_conflict(const TaskGraph& graph);

// Returns what tasks of `graph` use without a declaration: buffers, layers, columns.
[[nodiscard]] std::vector<std::string> undeclared(const TaskGraph& graph);

// Throws logic_error with the first fault, if there is one.
void require_ordered(const TaskGraph& graph);

}  // namespace tandem::model
