#pragma once

// A point of the search on its way: what the axes have decided, and the plan without shares.

#include "planner/search/request.hpp"

namespace tandem::planner {

// A request with the values that axes have chosen so far.
struct Draft {
  Request request;
  Sums sums{};  // chosen from request.allreduce; none: the strategy has no collective
};

// Returns the plan of a draft without shares. Throws Error for a contradictory request: window,
// workload, number of profiles, sparse attention.
[[nodiscard]] Plan outline_of(const Draft& draft);

}  // namespace tandem::planner
