#pragma once

// Lower bounds on the time of any plan for a request.

#include <optional>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

struct RequestBound {
  double planned_s = 0.0;      // predicted_request_time
  double lower_bound_s = 0.0;  // not above planned_s
  // Galaxy's equation 5 (partition/equation5.hpp) for the plan's split, and its lower bound over
  // all splits; for strategies that split heads and columns.
  std::optional<double> equation5_s{};
  std::optional<double> equation5_bound_s{};
};

// Returns a lower bound, in seconds, on the time of the plan's request by the analytic evaluator,
// messages included, over all plans of the same strategy: any split, collective, order of devices,
// tiles, windows and master, with the same devices, profiles, tokens and formats. Nothing for
// strategies that split nothing; for pipelines with stages of several devices (plans of pipelines
// without such stages are still bounded); for models with layers in different formats; and for
// prompts with sparse attention.
//   The bound is a relaxation in closed form, solved over all splits of whole heads and columns
// (partition/exact/division.hpp); decision 0036 derives it. Per half of a layer, S bytes of all
// rows:
//   tensor, sums at a root r       max(c_r, c_e + what e's way from r and to r takes of S, e != r)
//   tensor, sums spread            max over e of c_e + e's least latency + S / e's best bandwidth
//   galaxy's prompts               max over e of c_e in all layers, or the way out of some e for 2
//   S a layer pipeline                       the fastest devices' layers, and a message to each
//   device
// c_e: the cpu time of e for its heads or columns, if it has any. Memory counts only if no device
// has a disk to stream from.
[[nodiscard]] std::optional<RequestBound> request_bound(const Plan& plan);

// Returns the same for one step of `batch`, without equation 5.
[[nodiscard]] double step_bound(const Plan& plan, const model::Batch& batch);

}  // namespace tandem::planner
