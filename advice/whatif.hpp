#pragma once

// The single purchase for a plan's devices or links that helps most.

#include <optional>
#include <string>
#include <vector>

#include "advice/ask.hpp"
#include "advice/prediction.hpp"
#include "advice/progress.hpp"
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
// the latency. Strategy, collectives, tiles and chunks stay the plan's; a composition for which a
// change leaves no groups becomes auto. Shares, windows (if the plan streams weights) and rounds
// (if it has several) are made anew as by `tandem plan`, or kept if that is faster; a second device
// may stay idle. A second device joins the group of the first. Reports each finished change to
// `progress`. Throws Error as the evaluators do.
[[nodiscard]] WhatIf what_if(const planner::Plan& plan, EvaluatorKind evaluator, Progress& progress,
                             const ServedWorkload* served = nullptr);

// Returns the clock of that time, and what compares shares for it, as `tandem plan` does.
[[nodiscard]] PlanClock request_clock(EvaluatorKind evaluator);
[[nodiscard]] planner::Evaluator planning_evaluator(EvaluatorKind evaluator);

}  // namespace tandem::study
