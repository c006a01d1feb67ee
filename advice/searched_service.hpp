#pragma once

// Many requests, as a plan is searched for them.

#include "advice/prediction.hpp"
#include "planner/search/objective.hpp"
#include "planner/serving/service_search.hpp"

namespace tandem::study {

// Returns how `served` is read by its policy, with the clock of the objective:
// predict_served_fairly of its first 16 requests and of 64 new tokens of each, as if nothing
// varied. Once all prompts are read, more tokens take nearly the same time whatever the chunks
// were.
//   best_chunk   the chunk is searched; else it is that of `served`
//   steps        in flight; 0: searched
// `served` outlives it.
[[nodiscard]] planner::Service searched_service(const ServedWorkload& served,
                                                planner::Objective objective, bool best_chunk,
                                                std::int64_t steps);

}  // namespace tandem::study
