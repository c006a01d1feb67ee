#pragma once

// The single purchase for a plan's devices or links that helps most.

#include <optional>
#include <string>
#include <vector>

#include "advice/ask.hpp"
#include "advice/prediction.hpp"
#include "advice/progress.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::study {

struct WhatIfChange {
  enum class Kind { none, add, speed, memory, disk, bandwidth, latency };
  Kind kind = Kind::none;
  std::string subject{};  // of a device or a link; "all links"
  // Time of a request of the plan's workload, or the mean of many, planned anew after the change;
  // absent: impossible.
  std::optional<double> request_s{};
  std::string obstacle{};  // why it is impossible
  bool at_least = false;   // whether the search for it did not end: `tandem plan` may find more
};

// Returns "'laptop' with twice the memory": in the words of `tandem whatif`.
[[nodiscard]] std::string to_text(const WhatIfChange& change);

struct WhatIf {
  double planned_s = 0.0;    // of the plan as it is
  double unchanged_s = 0.0;  // planned anew without a change, if that is faster; else planned_s
  std::vector<WhatIfChange> changes{};  // fastest first, impossible ones last
  // Compares with a plan without a change that takes so long, if it is faster than unchanged_s.
  // Whatever is bought, that plan can stay: what would be slower planned anew takes as long.
  void compare_with(double seconds);
  // Returns 1 - the change's time / unchanged_s, not negative. For possible changes.
  [[nodiscard]] double gain(const WhatIfChange& change) const;
};

// Predicts by `evaluator` a request of `plan`'s workload alone, or, if `served` is not null, the
// mean time of its requests from arrival to end, after each of these changes, one at a time:
// a second device equal to one, on links of its own if that has such; a device with twice the
// speed, the memory or the disk bandwidth; a link, or all links, with twice the bandwidth or half
// the latency. Strategy, groups, types and the LM head stay the plan's; a second device joins the
// group of the first, and may stay idle.
// First each change is planned with the plan's collectives, tiles and chunks: shares, windows (if
// the plan streams weights), rounds (if it has several) and steps in flight are made anew, or kept
// if that is faster. A composition for which a change leaves no groups becomes auto.
// With `search`, then all that `tandem plan` searches without a flag is searched within that limit
// (open_ask_of): without a change first, then for the changes that gain most. The others, and those
// that were cut, gain at least that.
// Reports each finished change to `progress`. Throws Error as the evaluators do.
[[nodiscard]] WhatIf what_if(const planner::Plan& plan, EvaluatorKind evaluator, Progress& progress,
                             const ServedWorkload* served = nullptr,
                             const std::optional<planner::SearchEffort::Limits>& search = {});

// Returns the clock of that time, and what compares shares for it, as `tandem plan` does.
[[nodiscard]] PlanClock request_clock(EvaluatorKind evaluator);
[[nodiscard]] planner::Evaluator planning_evaluator(EvaluatorKind evaluator);

}  // namespace tandem::study
