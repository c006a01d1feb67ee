#pragma once

#include <string>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Returns a sentence on the devices whose profiles were measured with so few rows that the
// predicted time of the plan's prompts on them is a guess; empty if there are none. The cost model
// extrapolates from the last measured point in proportion to the rows, which is right once a task
// is compute-bound. Before that, rows share the reading of weights: from a single token, 256 rows
// would be predicted to take 256 times its time, but take 15 times on a core of an Intel Xeon.
// Nominal profiles contain the point where the bound changes.
[[nodiscard]] std::string extrapolation_remark(const Plan& plan);

// Throws Error, as the cost model does, unless the profiles have a rate for every task of the
// plan's steps. Only some plans need those of sparse attention and spread caches.
void check_rates(const Plan& plan);

}  // namespace tandem::planner
