#pragma once

// The planner's additional search for strategies with stages: rounds and groups.

#include <variant>

#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

using Answer = std::variant<Plan, Infeasible>;

[[nodiscard]] model::DeviceIndex master_of(const Request& request);
// Returns the plan of `request` without shares.
[[nodiscard]] Plan plan_outline(const Request& request, const Strategy& strategy, const Sums& sums);
// Runs one search with these sums and the given number of rounds (none: one).
[[nodiscard]] Answer make_plan(const Request& request, const Strategy& strategy, const Sums& sums);

// Throws Error for rounds that the request does not allow.
void check_rounds(const Request& request, const Strategy& strategy);
// Throws Error for an unknown group strategy, or for a strategy without groups.
void check_group_strategy(const Request& request);
// Returns the plan with the number of rounds that makes the request fastest.
[[nodiscard]] Answer with_fastest_rounds(Request request, const Strategy& strategy);
// Returns a pipeline of groups, with the requested sums or, for auto, those of the shortest
// request. Throws Error for groups that the request does not allow.
[[nodiscard]] Answer make_group_plan(const Request& request, const Strategy& strategy);

}  // namespace tandem::planner
