#pragma once

#include <string>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Returns a sentence on the devices whose profiles were measured with so few rows that what the
// plan's prompts take on them is a guess; empty if there is none. The cost model continues the last
// measured point in proportion to the rows, which holds once computing, not memory, bounds a task.
// Until there, rows share the reading of weights: from a single token, 256 rows would be predicted
// to take 256 times its time; on a core of an Intel Xeon they take 15 times. Nominal profiles know
// where the bound changes.
[[nodiscard]] std::string extrapolation_remark(const Plan& plan);

// Throws Error, as the cost model does, unless the profiles have a rate for every task of the
// plan's steps: not all plans need those of sparse attention and spread caches.
void check_rates(const Plan& plan);

}  // namespace tandem::planner
