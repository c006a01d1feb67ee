#pragma once

// How long a request takes with a split whose weights may stream.

#include <vector>

#include "planner/partition/budget.hpp"
#include "planner/partition/share_search.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/window_search.hpp"

namespace tandem::planner {

// `outline` with shares by device that fit `budget`, each device's window the first of its choices
// (window_choices), which go to `all` unless it is null.
[[nodiscard]] Plan with_first_windows(const Plan& outline, const std::vector<model::Share>& shares,
                                      const Budget& budget, const WindowRequest& request,
                                      std::vector<std::vector<Window>>* all);

// The times of splits of `outline` with those windows: predicted_request_time, for ever where a
// device would stream that has no disk; and LeastRequestTime's. The first two outlive the result.
[[nodiscard]] SplitTime split_time(const Plan& outline, const Budget& budget,
                                   const WindowRequest& request);

}  // namespace tandem::planner
