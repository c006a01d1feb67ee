#pragma once

// Whether a graph orders what its tasks do to the storage that it declares.

#include <optional>
#include <string>
#include <vector>

#include "model/graph/task_graph.hpp"

namespace tandem::model {

// Two tasks conflict if they use the same elements of a device's storage and one of them writes. A
// graph orders them if the later one, by index, depends on the earlier one, directly or through
// others, where every lane runs its tasks in the order of their indices. So tasks of one cpu lane
// are in order anyway; a graph has to order messages and loads. Found are:
//   a task that reads or overwrites what a message brings, or a message that sends what a task or
//     another message has made, without waiting for it;
//   a task that uses a block of streamed weights without waiting for its load, or after its
//     release; a load that does not wait for the release of the block whose room it takes, which
//     is as many loads before it as the device records events, the step before included;
//   with several steps in flight: a task of the epilogue that reads what neither the epilogue nor a
//     message delivered in it has made. Between the epilogue and all else of its step the lane does
//     other steps, which use the same buffers, though not the same sequences' caches.
// Not asked of a graph: that a message is captured before its buffer is overwritten, and delivered
// after what was in its place has been used. That is the rule by which messages are placed among a
// device's tasks (model/graph/message_schedule.hpp), whatever they depend on.
// Returns the first fault in words, nothing if there is none.
[[nodiscard]] std::optional<std::string> find_conflict(const TaskGraph& graph);

// What tasks of `graph` use and the graph does not declare: a buffer, a layer or columns of it.
// Empty if they use what is declared.
[[nodiscard]] std::vector<std::string> undeclared(const TaskGraph& graph);

// Throws logic_error with the fault, if there is one.
void require_ordered(const TaskGraph& graph);

}  // namespace tandem::model
