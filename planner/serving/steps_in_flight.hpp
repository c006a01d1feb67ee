#pragma once

// The search for the number of steps in flight, by prediction.

#include <cstdint>
#include <functional>
#include <span>

#include "planner/plan/inference_request.hpp"
#include "planner/search/request.hpp"
#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {

// Returns whether the number of steps in flight is a choice: whole layers are split and none has to
// stream, each step goes round once, and the policy has several sequences in flight.
[[nodiscard]] bool may_fly(const Request& request, const Policy& policy);

// Returns the number of steps from 1 to `most` that takes the least time: `usual` unless another
// saves 0.01%, and of those as fast to 0.01% the fewest, since steps take memory. More steps fill
// the stages while messages travel, but share out the sequences among more steps, each of which
// reads all weights, and share links. The time is not monotone, so all are tried: 16, 8, 4, 2 and 1
// first, for a search that ends before; roughly: `usual` and `most` alone.
//   seconds   of so many steps; infinite: they do not fit
[[nodiscard]] std::int64_t best_steps(std::int64_t usual, std::int64_t most, bool roughly,
                                      const std::function<double(std::int64_t steps)>& seconds);

}  // namespace tandem::planner
