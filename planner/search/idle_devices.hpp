#pragma once

// Plans that leave a device without work: there are none, and whoever asks is told why.

#include <optional>
#include <string>
#include <vector>

#include "planner/search/group_search.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// Why `shares`, one a device of `plan`'s cluster, give some device nothing to do, and the remedy;
// empty if all have something.
[[nodiscard]] std::string idle_devices(const Plan& plan, const Strategy& strategy,
                                       const std::vector<model::Share>& shares);

// The same of any shares: the platform has more devices than the model has heads, FFN columns or
// layers for by `strategy`, whose stages are `groups` or, if there are none, the devices.
[[nodiscard]] std::optional<Infeasible> too_many_devices(const Plan& plan, const Strategy& strategy,
                                                         const Groups& groups);

}  // namespace tandem::planner
