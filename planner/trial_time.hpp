#pragma once

// The two parts of trial_request_time (allreduce_search.hpp), for searches that change one.

#include "planner/allreduce_search.hpp"
#include "planner/plan.hpp"

namespace tandem::planner {

// Seconds of the prompt's step, of a few layers.
[[nodiscard]] double trial_prompt_time(const Plan& plan, const Evaluator& evaluate);

// Seconds of all new tokens but the first, each as one halfway; 0 if there are none.
[[nodiscard]] double trial_tokens_time(const Plan& plan, const Evaluator& evaluate);

}  // namespace tandem::planner
