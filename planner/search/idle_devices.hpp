#pragma once

// Plans never leave a device idle; requests that would are rejected with the reason.

#include <optional>
#include <string>
#include <vector>

#include "planner/search/group_search.hpp"
#include "planner/search/request.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// Returns why `shares`, one for each device of `plan`'s cluster, leave some device idle, and the
// remedy; empty if all devices have work.
[[nodiscard]] std::string idle_devices(const Plan& plan, const Strategy& strategy,
                                       const std::vector<model::Share>& shares);

// The same for any shares: returns a reason if the platform has more devices than the model has
// heads, FFN columns or layers for with `strategy`, whose stages are `groups` or else the devices.
[[nodiscard]] std::optional<Infeasible> too_many_devices(const Plan& plan, const Strategy& strategy,
                                                         const Groups& groups);

}  // namespace tandem::planner
