#pragma once

// The star: every worker sends its term to the master, which adds and sends the sum back. A tree of
// one level.

#include "planner/collective/collective.hpp"

namespace tandem::planner {

// Steps, for N ranks in order of rank, the master's own term first:
//   1. worker k: transfer partial -> the master's receive slot
//   2. master:   partial += receive slot, in order of k, so that the sum does not depend on the
//      order of arrival
//   3. master:   transfer partial -> partial of worker k
// If the master has no term of its own, the first worker's goes straight to its `partial`.
//
// On the wire: (C + R) S bytes, C contributing and R receiving workers: 2 (N - 1) S if all do.
// Time with equal links of latency l (whole route) and bandwidth B, terms of S bytes ready at once,
// additions free:
//   T = 2 l + 2 S / B                nothing shared:    Proposition 2 of TPI-LLM
//   T = 2 l + (C + R) S / B          all routes share the master's access link of bandwidth B
[[nodiscard]] model::Seconds star_time(model::Bytes bytes, const Uniform& net);
// The second of the two, for all ranks contributing and receiving.
[[nodiscard]] model::Seconds star_time_shared(std::int32_t ranks, model::Bytes bytes,
                                              const Uniform& net);

[[nodiscard]] Collective star_collective();

}  // namespace tandem::planner
