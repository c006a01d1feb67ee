#pragma once

// A device's memory for executing a plan that no graph declares: connections, threads, graphs with
// their lane programs, packed operands. It counts as the program's, in addition to the program
// alone (DeviceProfile::program_bytes). This is its only source.

#include <cstdint>
#include <vector>

#include "model/graph/memory.hpp"
#include "model/graph/task_graph.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

// The load on one device over all steps of a run.
struct SessionLoad {
  std::int64_t peers = 0;     // devices with which it has a control connection
  std::int64_t sends = 0;     // channels on which it sends, one connection each
  std::int64_t receives = 0;  // channels on which it receives
  std::int64_t steps = 1;     // in flight; each has lanes of its own at every channel's end
  double graph_bytes = 0.0;   // of all graphs that it keeps, with their lane programs
  std::int64_t rows = 0;      // tokens of the largest step, on a device that computes
  bool operator==(const SessionLoad&) const = default;
};

// Returns the devices that the master connects to: those that exchange messages and, if the
// strategy splits rows, all with weights, as other prompts than the largest may have rows for them.
// `storage`: of each device.
[[nodiscard]] std::vector<bool> workers_of(const Plan& plan,
                                           const std::vector<model::DeviceStorage>& storage);

// Returns the loads by device. `graphs`: of the largest steps, of a prompt and of new tokens.
// `storage`: their declarations. Every device keeps these, and for each further graph that
// extents.graphs counts as much as the largest of them.
[[nodiscard]] std::vector<SessionLoad> session_loads(
    const Plan& plan, const std::vector<model::TaskGraph>& graphs,
    const std::vector<model::DeviceStorage>& storage, const model::Extents& extents);

[[nodiscard]] double session_bytes(const SessionLoad& load);

}  // namespace tandem::planner
