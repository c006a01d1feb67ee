#pragma once

// What executing a plan takes of a device's memory that no graph declares: connections, threads,
// graphs and the lanes' programs of them, packed operands. It counts as the program's, beside what
// the program takes by itself (DeviceProfile::program_bytes). The one place that says it.

#include <cstdint>
#include <vector>

#include "model/graph/memory.hpp"
#include "model/graph/task_graph.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Of one device, in all steps of a run.
struct SessionLoad {
  std::int64_t peers = 0;     // with which it has a control connection
  std::int64_t sends = 0;     // channels on which it sends, a connection each
  std::int64_t receives = 0;  // and receives
  std::int64_t steps = 1;     // in flight: each has lanes of its own at every channel's end
  double graph_bytes = 0.0;   // of all graphs that it keeps, with the lanes' programs
  std::int64_t rows = 0;      // tokens of the largest step, on a device that computes
  bool operator==(const SessionLoad&) const = default;
};

// The devices that the master connects to: those that exchange anything, and, where a strategy
// parts rows, all with weights, as other prompts than the largest may have rows for them.
// `storage`: of each device.
[[nodiscard]] std::vector<bool> workers_of(const Plan& plan,
                                           const std::vector<model::DeviceStorage>& storage);

// By device. `graphs`: of the largest steps, of a prompt and of new tokens. `storage`: what they
// declare. Every device keeps these, and as large as the largest of them what extents.graphs counts
// beyond them.
[[nodiscard]] std::vector<SessionLoad> session_loads(
    const Plan& plan, const std::vector<model::TaskGraph>& graphs,
    const std::vector<model::DeviceStorage>& storage, const model::Extents& extents);

[[nodiscard]] double session_bytes(const SessionLoad& load);

}  // namespace tandem::planner
