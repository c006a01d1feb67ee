#pragma once

// What no plan can beat.

#include <optional>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

struct RequestBound {
  double planned_s = 0.0;      // predicted_request_time
  double lower_bound_s = 0.0;  // at most that
  // Galaxy's equation 5 (partition/equation5.hpp) of the plan's split, and what no split is below;
  // of strategies that split heads and columns.
  std::optional<double> equation5_s{};
  std::optional<double> equation5_bound_s{};
};

// Seconds below which no plan of the same strategy answers the plan's request by the analytic
// evaluator, messages included: whatever its split, collective, order of devices, tiles, windows
// and master, on the same devices, with the same profiles, tokens and formats. Nothing for
// strategies that split nothing, for pipelines some of whose stages are of several devices (no plan
// of a pipeline without such is below its bound), for models some of whose layers have formats of
// their own, and for prompts of which attention drops rows.
//   The bound is a relaxation in closed form, solved over all splits of whole heads and columns
// (partition/exact/division.hpp); decision 0036 derives it. Per half of a layer, S bytes of all
// rows:
//   tensor, sums at a root r       max(c_r, c_e + what e's way from r and to r takes of S, e != r)
//   tensor, sums spread            max over e of c_e + e's least latency + S / e's best bandwidth
//   galaxy's prompts               max over e of c_e in all layers, or the way out of some e for 2
//   S a layer pipeline                       the fastest devices' layers, and a message to each
//   device
// c_e: what the cpu of e takes for its heads or columns, if it has any.
// Memory counts where no device has a disk to stream from.
[[nodiscard]] std::optional<RequestBound> request_bound(const Plan& plan);

// The same of one step of `batch`, without what equation 5 says.
[[nodiscard]] double step_bound(const Plan& plan, const model::Batch& batch);

}  // namespace tandem::planner
