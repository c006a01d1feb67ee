#pragma once

// Layers and order of a pipeline's devices by the rate of what goes round them.

#include <optional>
#include <vector>

#include "model/recurrent.hpp"
#include "planner/partition/budget.hpp"
#include "planner/partition/chain.hpp"
#include "planner/plan.hpp"

namespace tandem::planner {

// Seconds from request to request, where as many go round the stages of `plan` as it has steps in
// flight: the law (model/recurrent.hpp) of all that a typical request takes of each stage, its
// prompt and its new tokens. Where several share a step, from group to group of them.
[[nodiscard]] double request_period(const Plan& plan);

// What a typical request takes of each stage in all, with those that share its steps.
[[nodiscard]] model::Ring request_ring(const Plan& plan);

// What the search is made for: by device in stage_order, the seconds of a whole request.
[[nodiscard]] ChainProblem chain_problem(const Budget& budget);

// The shares with the least request_period within the budget; nothing if the layers do not fit. Of
// `budget.plan()` shares are not read. Exact as fastest_chain is, where nothing shares a link and
// no stage is told of a step late.
[[nodiscard]] std::optional<std::vector<model::Share>> shares_by_rate(const Budget& budget);

// What no split of the layers, whole or in parts, over all devices of `plan`, a stage each, and no
// order of them can be faster than.
struct RateBound {
  double planned_s = 0.0;      // request_period
  double lower_bound_s = 0.0;  // at most that
  bool exact = false;          // whether orders were searched exactly
};
// Nothing where a stage is of several devices, which may be faster.
[[nodiscard]] std::optional<RateBound> rate_bound(const Plan& plan);

}  // namespace tandem::planner
