#pragma once

// Relays in random graphs.

#include <vector>

#include "model/graph/task_graph.hpp"

namespace tandem::test {

// Makes `task`, of which nothing but its output counts, pass on what transfer `of` of `graph`
// brings, to device `to`; leaves it as it is if `of` is no transfer or ends there. (Whether it is a
// relay depends on what else has written to that buffer.)
inline void try_relay(const model::TaskGraph& graph, model::TaskIndex of, model::DeviceIndex to,
                      model::Task& task, std::vector<model::TaskIndex>& dependencies) {
  const model::Task& message = graph.tasks()[static_cast<std::size_t>(of)];
  if (message.lane != model::LaneKind::channel || message.peer == to) return;
  const model::BufferRef output = task.output;
  task = message;
  task.device = message.peer;
  task.peer = to;
  task.input = message.output;
  task.output = output;
  dependencies = {of};
}

}  // namespace tandem::test
