#pragma once

// `tandem simulate --goal`: the highest rate of arrival within a goal, and what requests get at
// rates around it.

#include <filesystem>
#include <ostream>

#include "advice/prediction.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/shown.hpp"
#include "planner/plan/file/plan_file.hpp"

namespace tandem::cli {

// Returns the flags --goal and --figure.
[[nodiscard]] std::vector<Flag> rate_flags();

// Answers for the plan of `file`, which is at `path`. Returns the exit code: 3 if the goal holds at
// no rate.
int simulate_rates(Options& options, const planner::PlanFile& file,
                   const std::filesystem::path& path, study::EvaluatorKind evaluator,
                   const Shown& show, std::ostream& out);

}  // namespace tandem::cli
