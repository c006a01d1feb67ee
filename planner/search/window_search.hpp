#pragma once

// Which window and retention each device gets.

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
  bool operator==(const WindowRequest&) const = default;
};

// The least that a device of `request` can do with: what is chosen is at least this. A device
// without a disk keeps all where there is a choice.
[[nodiscard]] std::vector<Window> least_windows(const Plan& plan, const WindowRequest& request);

// What `device` of `budget` might be given for `share` within its memory: whole weights if they
// fit, else for each number of retained blocks the widest window, but none that loads more than
// another and holds no more. Fewest bytes to load first; empty if nothing fits.
[[nodiscard]] std::vector<Window> window_choices(const Budget& budget, std::size_t device,
                                                 const model::Share& share,
                                                 const WindowRequest& request);

// Seconds until the last token of the plan's workload is sampled (an encoder's pass is done), by
// the analytic evaluator or by `evaluate`.
[[nodiscard]] double predicted_request_time(const Plan& plan);
[[nodiscard]] double predicted_request_time(const Plan& plan, const Evaluator& evaluate);

// Gives each device of `plan` one of its choices (one list a device, none empty), by the predicted
// time of the request: the best of all combinations where these are few, or one device alone has a
// choice. Else one device's is changed at a time for as long as that helps, from the first of each
// on and from the last of each on, which need not end in the best.
void choose_windows(Plan& plan, std::span<const std::vector<Window>> choices);

}  // namespace tandem::planner
