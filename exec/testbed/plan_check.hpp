#pragma once

// Which plans a testbed can run.

#include <string>

#include "planner/plan/plan.hpp"

namespace tandem::exec {

// Throws Error (what differs, remedy) unless `plan` is of a platform with the network of `network`,
// and its devices need no more of this machine than there is: one computes at a time, and time
// passes `dilation` times more slowly.
void check_testbed_plan(const planner::Plan& plan, const std::string& network,
                        const std::string& platform, double dilation);

}  // namespace tandem::exec
