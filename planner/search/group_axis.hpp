#pragma once

// The collectives within the groups of a pipeline.

#include "planner/search/engine.hpp"

namespace tandem::planner {

// For requests with groups: the requested sums or, for auto, the fastest, first for new tokens,
// then for the prompt, as the time of one phase does not depend on the sums of the other. Compares
// periods if the objective is the rate, else predictions of the request.
[[nodiscard]] const Axis& group_axis();

}  // namespace tandem::planner
