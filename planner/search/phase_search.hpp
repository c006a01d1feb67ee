#pragma once

// Plans that minimise one phase of a request.

#include <variant>

#include "planner/search/search.hpp"

namespace tandem::planner {

// Returns make_plan's result for objectives `ttft` and `latency`: the faster, by
// `request.evaluate`, of the plan for the whole request and the plan made for its prompt (its new
// tokens) alone, which then serves the whole request. New tokens alone are a request with a prompt
// of one token that ends at the same position, so the context in the middle is up to half the
// prompt shorter, and shares may be suboptimal by that difference in attention. Throws Error as
// make_plan does, and for the latency of fewer than two new tokens.
[[nodiscard]] std::variant<Plan, Infeasible> make_phase_plan(Request request);

}  // namespace tandem::planner
