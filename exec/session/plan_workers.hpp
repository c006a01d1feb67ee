#pragma once

#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::exec {

// By DeviceIndex: whether it takes part in some step, so that it needs a process of its own:
// whether it exchanges anything with others, or, where rows are parted, has weights, as prompts of
// other lengths than the plan's may give it rows. False for the master.
[[nodiscard]] std::vector<bool> workers_of(const planner::Plan& plan);

}  // namespace tandem::exec
