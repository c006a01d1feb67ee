#pragma once

// A plan asked for on fewer of its devices.

#include <string>
#include <vector>

#include "advice/free/free_change.hpp"

namespace tandem::study {

// Returns `ask` on the `used` devices (by DeviceIndex of its cluster): groups lose the others'
// names, given proportions and compositions of sums that such devices do not have are left to the
// search. Throws Error where they do not reach each other.
[[nodiscard]] Ask on_devices(Ask ask, const std::vector<bool>& used);

// Leaves sums to the search, as `tandem plan` does without `--allreduce`.
void open_sums(planner::Request& request);

// Returns `ask` for one device that computes everything.
[[nodiscard]] Ask alone(Ask ask, const std::string& device);

}  // namespace tandem::study
