#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "model/report/trace.hpp"

namespace tandem::exec {

// The times of a task on a device:
//   a cpu task: its start and its end;
//   a transfer, at its sender: when the channel took it and when the channel was free again;
//   a transfer, at its receiver: its arrival, twice;
//   the copy that each of the two makes of it: start and end, under ~task (task 5's copy is -6).
struct TaskTime {
  std::int32_t step = 0;
  model::TaskIndex task = 0;
  std::int64_t start_ns = 0;  // of the device's own steady clock
  std::int64_t end_ns = 0;

  // Returns whether this is the record of a capture or delivery.
  [[nodiscard]] bool copy() const { return task < 0; }
  [[nodiscard]] model::TaskIndex of() const { return copy() ? ~task : task; }
};

static_assert(sizeof(TaskTime) == static_cast<std::size_t>(model::kRecordBytes));

using TimeLog = std::vector<TaskTime>;

}  // namespace tandem::exec
