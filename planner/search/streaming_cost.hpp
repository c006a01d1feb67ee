#pragma once

// The time cost of streaming weights from disks instead of keeping them in memory.

#include <string>

#include "planner/search/search.hpp"

namespace tandem::planner {

// Returns the most bytes that a device loads for one new token of `plan`.
[[nodiscard]] double bytes_a_token(const Plan& plan);

// Describes the cost of streaming in make_plan()'s answer to `request`, if the window was its
// choice: a token's wait for the disks, its time with and without them (analytic evaluator, no
// variation), and the memory that would avoid it. Sentences on lines of their own; empty if nothing
// streams or a window was requested.
[[nodiscard]] std::string streaming_cost(const Request& request, const Plan& plan);

}  // namespace tandem::planner
