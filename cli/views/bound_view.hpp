#pragma once

// How far a plan is from the best possible, as `tandem plan` says it.

#include <iosfwd>
#include <nlohmann/json.hpp>

#include "planner/bounds/bound.hpp"
#include "planner/search/objective.hpp"

namespace tandem::cli {

// Prints the lower bound of the request (or of the first token, by the objective that `bound` is
// of), and how far equation 5 is from its best. Not bound.planned_s: with links not shared, it is
// not the time that is printed as predicted.
void print_bound(const planner::RequestBound& bound, planner::Objective objective,
                 std::ostream& out);

// The same as the field `bound` of `--json`, and as `equation5`; null where there is none.
[[nodiscard]] nlohmann::ordered_json bound_json(const planner::RequestBound& bound,
                                                planner::Objective objective);
[[nodiscard]] nlohmann::ordered_json equation5_json(const planner::RequestBound& bound);

}  // namespace tandem::cli
