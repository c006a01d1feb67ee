#pragma once

// Why a plan would not do for another workload.

#include <string>

#include "planner/plan/plan.hpp"
#include "planner/plan/workload.hpp"

namespace tandem::study {

// Returns a description of the device that lacks most if `plan`, with its shares, were for
// `workload`; empty if it would do, or if its shares are of its own prompt.
[[nodiscard]] std::string lack_of(planner::Plan plan, const planner::Workload& workload);

}  // namespace tandem::study
