#pragma once

// The memory of a plan: the storage that its graphs declare, and its bytes.

#include <span>
#include <string>
#include <vector>

#include "model/graph/memory.hpp"
#include "planner/plan/inference_request.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Returns the extents of steps within `capacity`, or of scoring a text: `scored_rows` sampled rows.
[[nodiscard]] model::Extents extents_of(const Capacity& capacity, std::int64_t scored_rows = 0);
// Returns the extents of steps within `capacity` as a service makes them, with as many cached step
// structures as planner/strategy/common/graph_cache keeps.
[[nodiscard]] model::Extents serving_extents(const Capacity& capacity);

// Returns the storage of each device for every step within `extents`, from the graphs of the
// largest steps: a prompt of all rows, and a new token of every sequence. The graph of any other
// batch equals one of the two, with at most as many rows. If the strategy splits rows, prompts that
// leave some devices without rows, or some rows without results, are considered as well; other
// steps may need memory for one more message, which their devices add (Runtime::prepare).
[[nodiscard]] std::vector<model::DeviceStorage> storage_of(const Plan& plan,
                                                           const model::Extents& extents);

// Returns the peak memory of each device in steps within `extents`: its storage, its weights in
// whole pages, and the program by its profile with a session's overhead
// (planner/memory/session_memory); zeros for a device without a connection (workers_of). A profile
// whose program takes no memory belongs to a nominal device: pages and sessions are then not
// counted. Ignores the plan's own memory figures.
[[nodiscard]] std::vector<model::MemoryUse> predicted_memory(const Plan& plan,
                                                             const model::Extents& extents);
// Returns the peak memory of each device for everything that `plan` reserves memory for.
[[nodiscard]] std::vector<model::MemoryUse> predicted_memory(const Plan& plan);
// Returns `plan` with that as its devices' memory.
[[nodiscard]] Plan with_predicted_memory(Plan plan);
// Returns whether the plan's memory of each device is within its budget.
[[nodiscard]] bool fits(const Plan& plan);

// Throws Error unless `memory`, by device, is within each device's budget on the platform.
//   subject   what needs it, with a verb: "run: 8 prompt and 4 new tokens need"
//   remedy    how to need less
void check_budgets(const Plan& plan, std::span<const model::MemoryUse> memory,
                   const std::string& subject, const std::string& remedy);

// Returns the bytes of a timeline on each device, which count as its program's: the records of its
// own tasks and, on the master, the records of all devices and their spans.
//   records   bytes of the records that each device makes (model::record_bytes)
[[nodiscard]] std::vector<double> timeline_bytes(const Plan& plan, std::vector<double> records);
// Throws Error unless memory within `extents` and such a timeline are within every budget.
//   subject   what is recorded: "run: a timeline of 8 new tokens"
void check_timeline_budgets(const Plan& plan, const model::Extents& extents,
                            const std::vector<double>& timeline, const std::string& subject);

// Returns an upper bound on the bytes that devices record in a run within `capacity`, by device:
// for `steps` of the largest steps, to within a few records a step.
[[nodiscard]] std::vector<double> most_records(const Plan& plan, const Capacity& capacity,
                                               std::int64_t steps);

}  // namespace tandem::planner
