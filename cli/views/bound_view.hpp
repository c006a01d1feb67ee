#pragma once

// How far a plan is from the best possible, as `tandem plan` says it.

#include <iosfwd>
#include <nlohmann/json.hpp>

#include "planner/bounds/bound.hpp"
#include "planner/search/objective.hpp"

namespace tandem::cli {

// Prints the predicted request (or first token, by the objective that `bound` is of), how far it is
// from the best possible, and the same of equation 5.
void print_bound(const planner::RequestBound& bound, planner::Objective objective,
                 std::ostream& out);

// The same as the field `bound` of `--json`, and as `equation5`; null where there is none.
[[nodiscard]] nlohmann::ordered_json bound_json(const planner::RequestBound& bound,
                                                planner::Objective objective);
[[nodiscard]] nlohmann::ordered_json equation5_json(const planner::RequestBound& bound);

}  // namespace tandem::cli
