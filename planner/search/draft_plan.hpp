#pragma once

// The plan of a draft all of whose axes are decided: shares and windows by exact splitters.

#include "planner/search/outline.hpp"

namespace tandem::planner {

// Returns a validated plan with the best of the candidate shares (share_candidates.hpp,
// group_search.hpp) and windows, or why there is none. Calls no other search. Throws Error as
// outline_of does, and for an unknown partition.
[[nodiscard]] Answer plan_draft(const Draft& draft);

}  // namespace tandem::planner
