#pragma once

// What a plan needs room for: the storage that its graphs declare, and its bytes.

#include <vector>

#include "model/memory.hpp"
#include "planner/plan.hpp"

namespace tandem::planner {

// Of steps within `capacity`, or that score a text: `scored_rows` rows of it are sampled from.
[[nodiscard]] model::Extents extents_of(const Capacity& capacity, std::int64_t scored_rows = 0);

// The storage of each device for every step within `extents`. Read from the graphs of the largest
// steps there are: a prompt of all rows, and a new token of every sequence. (The graph of any other
// batch is that of one of the two but for its rows, of which it has no more.)
[[nodiscard]] std::vector<model::DeviceStorage> storage_of(const Plan& plan,
                                                           const model::Extents& extents);

// Peak memory of each device in steps within `extents`: of its storage, its weights, and the
// program by its profile. Believes nothing that the plan says of memory.
[[nodiscard]] std::vector<model::MemoryUse> predicted_memory(const Plan& plan,
                                                             const model::Extents& extents);
// The same of all that `plan` reserves memory for.
[[nodiscard]] std::vector<model::MemoryUse> predicted_memory(const Plan& plan);

}  // namespace tandem::planner
