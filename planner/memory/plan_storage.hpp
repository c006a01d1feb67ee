#pragma once

// What a plan needs room for: the storage that its graphs declare, and its bytes.

#include <span>
#include <string>
#include <vector>

#include "model/graph/memory.hpp"
#include "planner/plan/inference_request.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Of steps within `capacity`, or that score a text: `scored_rows` rows of it are sampled from.
[[nodiscard]] model::Extents extents_of(const Capacity& capacity, std::int64_t scored_rows = 0);
// Of steps within `capacity` as requests make them, of as many structures as are kept
// (planner/strategy/common/graph_cache).
[[nodiscard]] model::Extents serving_extents(const Capacity& capacity);

// The storage of each device for every step within `extents`. Read from the graphs of the largest
// steps there are: a prompt of all rows, and a new token of every sequence. (The graph of any other
// batch is that of one of the two but for its rows, of which it has no more.) Where a strategy
// parts rows, also from prompts that leave some devices without rows, or some rows unasked for:
// other steps may need a message's room more, which their devices add (Runtime::prepare).
[[nodiscard]] std::vector<model::DeviceStorage> storage_of(const Plan& plan,
                                                           const model::Extents& extents);

// Peak memory of each device in steps within `extents`: of its storage, its weights in whole pages,
// and the program by its profile with what a session takes (planner/memory/session_memory); nothing
// of a device that nobody connects to (workers_of). A profile whose program takes nothing is of a
// device on paper: neither pages nor sessions count there. Believes nothing that the plan says of
// memory.
[[nodiscard]] std::vector<model::MemoryUse> predicted_memory(const Plan& plan,
                                                             const model::Extents& extents);
// Peak memory of each device for all that `plan` reserves memory for.
[[nodiscard]] std::vector<model::MemoryUse> predicted_memory(const Plan& plan);
// `plan` with that as its devices' memory.
[[nodiscard]] Plan with_predicted_memory(Plan plan);
// Whether the memory that the plan gives each device is within its budget.
[[nodiscard]] bool fits(const Plan& plan);

// Throws Error unless `memory`, by device, is within each device's budget on the platform.
//   subject   what needs it, with a verb: "run: 8 prompt and 4 new tokens need"
//   remedy    how to need less
void check_budgets(const Plan& plan, std::span<const model::MemoryUse> memory,
                   const std::string& subject, const std::string& remedy);

// Bytes that a timeline takes of each device, which count as its program's: what it records of
// its own tasks and, on the master, the records of all devices and the spans made of them.
//   records   bytes of the records that each device makes (model::record_bytes)
[[nodiscard]] std::vector<double> timeline_bytes(const Plan& plan, std::vector<double> records);
// Throws Error unless memory within `extents` and such a timeline are within every budget.
//   subject   what is recorded: "run: a timeline of 8 new tokens"
void check_timeline_budgets(const Plan& plan, const model::Extents& extents,
                            const std::vector<double>& timeline, const std::string& subject);

// The most that devices record of a run within `capacity`, in bytes, by device: of `steps` of the
// largest steps, a few records a step more or less.
[[nodiscard]] std::vector<double> most_records(const Plan& plan, const Capacity& capacity,
                                               std::int64_t steps);

}  // namespace tandem::planner
