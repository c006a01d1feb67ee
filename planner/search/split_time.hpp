#pragma once

// The time of a request for a split whose weights may stream.

#include <vector>

#include "planner/partition/budget.hpp"
#include "planner/partition/share_search.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/window_search.hpp"

namespace tandem::planner {

// Returns `outline` with shares by device that fit `budget`; each device's window is the first of
// its choices (window_choices), which are stored in `all` unless it is null.
[[nodiscard]] Plan with_first_windows(const Plan& outline, const std::vector<model::Share>& shares,
                                      const Budget& budget, const WindowRequest& request,
                                      std::vector<std::vector<Window>>* all);

// Returns the times of splits of `outline` with those windows: predicted_request_time, infinite if
// a device without a disk would stream; and LeastRequestTime's. The first two outlive the result.
[[nodiscard]] SplitTime split_time(const Plan& outline, const Budget& budget,
                                   const WindowRequest& request);

}  // namespace tandem::planner
