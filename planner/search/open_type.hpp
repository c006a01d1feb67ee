#pragma once

// What the axes of open types have in common.

#include <string>

#include "planner/search/engine.hpp"
#include "planner/search/request.hpp"

namespace tandem::planner {

// Offers the plan of `draft` and, if there is one, the same plan with f32 in place of `type`, as
// `widen` makes it, if that fits.
void offer_with_f32(const Draft& draft, Alternatives& all, std::string type, void (*widen)(Plan&));

// Returns the objective by the request's evaluator; of equal times, that of the plan that loses
// less is shorter. Precondition: a budget.
[[nodiscard]] Alternatives::Clock budget_clock(const Request& request);

}  // namespace tandem::planner
