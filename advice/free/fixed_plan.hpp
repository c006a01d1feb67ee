#pragma once

// A plan that was searched, or read from a file, asked for by flags.

#include "advice/free/free_change.hpp"

namespace tandem::study {

// Returns what `tandem plan` is asked for the strategy, devices, master, sums and policy of
// `chosen`, the answer to `asked`: shares and chunks are left to the search of one strategy. Its
// flags are added to those of the command, which has `--strategy auto`.
[[nodiscard]] Ask fixed_plan(const Question& asked, const Contender& chosen);

// Returns the same for a plan in a file and its workload `served` (null: one request), whose chunks
// stay. Its flags are added to those that name platform, model, weights, lengths and requests.
// `evaluate` compares shares.
[[nodiscard]] Ask fixed_plan(const planner::Plan& plan, const ServedWorkload* served,
                             const planner::Evaluator& evaluate);

}  // namespace tandem::study
