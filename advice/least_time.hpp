#pragma once

// What a search for the best plan may still gain.

#include "advice/question.hpp"

namespace tandem::study {

// Returns a lower bound on the objective of all plans for one request in any of the question's
// formats (planner/bounds/search_bound.hpp); 0 for many requests.
[[nodiscard]] double least_seconds(const Question& question);

}  // namespace tandem::study
