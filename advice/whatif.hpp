#pragma once

// Which one change of a plan's devices, links or master helps most.

#include <optional>
#include <string>
#include <vector>

#include "advice/prediction.hpp"
#include "advice/progress.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::study {

struct WhatIfChange {
  enum class Kind { none, drop, alone, add, master, speed, memory, disk, bandwidth, latency };
  Kind kind = Kind::none;
  std::string subject{};  // of a device or a link; "all links"
  // Of a request as the plan's workload, or the mean of many, planned anew for what has changed;
  // absent: not possible.
  std::optional<double> request_s{};
  std::string obstacle{};  // why not
};

// "'laptop' with twice the memory": in the words of `tandem whatif`.
[[nodiscard]] std::string to_text(const WhatIfChange& change);

struct WhatIf {
  double planned_s = 0.0;    // of the plan as it is
  double unchanged_s = 0.0;  // planned anew without a change, if that is faster; else planned_s
  std::vector<WhatIfChange> changes{};  // fastest first, impossible ones last
  // 1 - the change's time / unchanged_s; negative if it is slower. Of a possible change.
  [[nodiscard]] double gain(const WhatIfChange& change) const;
};

// Predicts a request of `plan`'s workload alone, or the mean time of the requests of `served` from
// arrival to end if it is not null, by `evaluator`, after each of these, one at a time: every
// device but the master left out; every device alone, with everything; another device like it, on
// links of its own where it has such; the prompt given to another one; a device that computes twice
// as fast, has twice the memory, a disk twice as fast; a link of twice the bandwidth, of half the
// latency; all links so. Strategy, collectives (but for a composition that a change leaves no
// groups for, which gives way to auto) and tiles stay the plan's, shares, windows (if the plan
// streams weights) and rounds (if it has several) are made anew as `tandem plan` makes them, or
// stay the plan's, too, where that is faster. Groups stay, without who is left out; another device
// is in the group of the one that it is like. Tells `progress` of each that is done. Throws Error
// as the evaluators do.
[[nodiscard]] WhatIf what_if(const planner::Plan& plan, EvaluatorKind evaluator, Progress& progress,
                             const ServedWorkload* served = nullptr);

}  // namespace tandem::study
