#pragma once

// `tandem simulate PLAN --platform P`: a plan on another platform.

#include <vector>

#include "cli/flags/options.hpp"
#include "planner/plan/file/plan_file.hpp"

namespace tandem::cli {

// The flags --platform and --default.
[[nodiscard]] std::vector<Flag> moved_plan_flags();

// Returns the file's plan on the platform of --platform (advice/other_platform.hpp), or as it is
// without that flag. Remarks on what is the plan's and what the platform's. Throws Usage for
// --default without --platform, Error as read_platform and on_platform do.
[[nodiscard]] planner::PlanFile moved_plan(const Options& options, planner::PlanFile file);

}  // namespace tandem::cli
