#pragma once

// The choice of each device's window and retention.

#include <optional>
#include <span>
#include <vector>

#include "planner/partition/budget.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/allreduce_search.hpp"
#include "planner/search/objective.hpp"

namespace tandem::planner {

struct WindowRequest {
  std::optional<std::int32_t> blocks = 0;  // absent: to be chosen; 0: all weights stay in memory
  std::optional<std::int32_t> retain{};    // absent: to be chosen; 0: none
  bool search =
      true;  // false: of several possible windows each device takes the one that loads least
  bool operator==(const WindowRequest&) const = default;
};

// Returns each device's lower limit by `request`; choices are at least this. A device without a
// disk keeps all weights if it has a choice.
[[nodiscard]] std::vector<Window> least_windows(const Plan& plan, const WindowRequest& request);

// Returns the windows that `device` of `budget` can have for `share` within its memory: all weights
// resident if they fit; else for each number of retained blocks the widest window, except those
// that load more than another and hold no more. Fewest bytes to load first; empty if nothing fits.
[[nodiscard]] std::vector<Window> window_choices(const Budget& budget, std::size_t device,
                                                 const model::Share& share,
                                                 const WindowRequest& request);

// Returns the seconds until the last token of the plan's workload is sampled (an encoder's pass is
// done), by the analytic evaluator or by `evaluate`.
[[nodiscard]] double predicted_request_time(const Plan& plan);
[[nodiscard]] double predicted_request_time(const Plan& plan, const Evaluator& evaluate);

// Gives each device of `plan` one of its choices (one non-empty list for each device) by the
// predicted time of the request: the best of all combinations if these are few, or if only one
// device has a choice. Else changes one device at a time while that helps, starting from the first
// and from the last choice of each: a local optimum.
void choose_windows(Plan& plan, std::span<const std::vector<Window>> choices);

}  // namespace tandem::planner
