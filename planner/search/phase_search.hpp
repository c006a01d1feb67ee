#pragma once

// Plans that make one phase of a request short.

#include <variant>

#include "planner/search/search.hpp"

namespace tandem::planner {

// What make_plan returns for objectives `ttft` and `latency`: the plan for the whole request, or
// the one that is made for its prompt alone (for its new tokens alone), which then serves the whole
// request, if that is faster by `request.evaluate`. New tokens alone are a request with a prompt of
// one token that ends at the same position, so the context in the middle is up to half the prompt
// shorter: shares may miss the best by what attention makes of that. Throws Error as make_plan
// does, and for the latency of fewer than two new tokens.
[[nodiscard]] std::variant<Plan, Infeasible> make_phase_plan(Request request);

}  // namespace tandem::planner
