#pragma once

// The planner's entry: from cluster, model and workload to a plan, or to the reason for
// infeasibility.

#include "planner/search/engine.hpp"

namespace tandem::planner {

// Returns a validated plan, or why there is none. With partition auto, the fastest of all tried
// shares by the analytic evaluator; with `throughput` the plan with the highest rate by the law of
// recurrent pipelines, devices in the best order for it; with `ttft` and `latency` see
// axes.hpp. If the all-reduce is to be chosen, it is chosen for shares by
// speed and for the shares found with the star (or another that fits); shares are then found again
// for either, and the fastest of the three plans is returned. If the window is to be chosen,
// weights are streamed only if no split keeps them all in memory or, with partition auto, if that
// is predicted to be faster; then, and with a given window, shares follow speed and disk within the
// memory needed, and every device keeps as much as it can. Throws Error for a contradictory request
// (unknown names, the wrong number of proportions, more tokens than the context).
[[nodiscard]] Answer make_plan(const Request& request);
// Returns the same with the decisions that led to it.
[[nodiscard]] Found find_plan(const Request& request);

// The axes of Request::open_axes, outermost first. They are above the reading of a prompt, which
// `advice` searches: a pipeline in chunks may be faster than groups that are faster with whole
// prompts.
[[nodiscard]] Axes outer_axes();

}  // namespace tandem::planner
