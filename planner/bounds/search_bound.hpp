#pragma once

// A lower bound on the time of a request over all strategies: what a search may still gain.

#include "planner/plan/plan.hpp"
#include "planner/search/objective.hpp"

namespace tandem::planner {

// Returns a lower bound, in seconds, on the objective of a lone request over all plans of all
// strategies on any of the plan's devices, in the plan's formats; its strategy and shares are not
// read. 0 for throughput. The larger of
//   products   max over u of sum over p of min over d of u_d t_dp,  sum of u_d = 1
//   disks      n (W - sum of M_d) / sum of b_d
//   t_dp  seconds of device d for all of product p (Q K V, out, up, down of all layers; the head)
//         at its best number of rows, without what a task costs whatever its size
//   n     steps    W  bytes of weights that each step reads    M_d  memory    b_d  disk bandwidth
// The first is the dual of sharing products out over devices that all compute at once; u_d is
// 1 / sum over p of t_dp, scaled. Ignores messages, attention over the cache, and all but Q, K and
// V in a prompt's last layer, which is computed for sampled rows only. A device that holds W_d
// bytes loads at least W_d - M_d of them in each step. With experts, weights are not read whole:
// the second is then 0.
[[nodiscard]] double least_seconds(const Plan& plan, Objective objective);

}  // namespace tandem::planner
