#pragma once

// What the search for a plan does besides where a strategy has stages: rounds and groups.

#include <variant>

#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

using Answer = std::variant<Plan, Infeasible>;

[[nodiscard]] model::DeviceIndex master_of(const Request& request);
// The plan of `request` without shares.
[[nodiscard]] Plan plan_outline(const Request& request, const Strategy& strategy, const Sums& sums);
// One search, with these sums, and as many rounds as are given (none: one).
[[nodiscard]] Answer make_plan(const Request& request, const Strategy& strategy, const Sums& sums);

// Throws Error for rounds that the request cannot have.
void check_rounds(const Request& request, const Strategy& strategy);
// Throws Error for a strategy of groups that there is not, or that has no groups.
void check_group_strategy(const Request& request);
// The plan with as many rounds as make the request fastest.
[[nodiscard]] Answer with_fastest_rounds(Request request, const Strategy& strategy);
// A pipeline of groups, with the sums asked for or, for auto, those of the shortest request. Throws
// Error for groups that the request cannot have.
[[nodiscard]] Answer make_group_plan(const Request& request, const Strategy& strategy);

}  // namespace tandem::planner
