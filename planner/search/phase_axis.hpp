#pragma once

// Plans that minimise one phase of a request.

#include "planner/search/engine.hpp"

namespace tandem::planner {

// For objectives `ttft` and `latency`: the plan for the whole request, and the plan made for its
// prompt (its new tokens) alone, which then serves the whole request. New tokens alone are a
// request with a prompt of one token that ends at the same position, so the context in the middle
// is up to half the prompt shorter, and shares may be suboptimal by that difference in attention.
// Compares predictions of the objective.
[[nodiscard]] const Axis& phase_axis();

}  // namespace tandem::planner
