#pragma once

#include <string>

#include "planner/plan.hpp"

namespace tandem::planner {

// Returns a sentence on the devices whose profiles were measured with so few rows that what the
// plan's prompts take on them is a guess; empty if there is none. The cost model continues the last
// measured point in proportion to the rows, which holds once computing, not memory, bounds a task.
// Until there, rows share the reading of weights: from a single token, 200 rows would be predicted
// to take 200 times its time, where 10 to 30 times are usual. Nominal profiles know where the bound
// changes.
[[nodiscard]] std::string extrapolation_remark(const Plan& plan);

}  // namespace tandem::planner
