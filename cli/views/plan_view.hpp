#pragma once

// What a plan holds, as `tandem plan` shows it.

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>

#include "planner/plan/plan.hpp"

namespace tandem::cli {

// Prints who holds what. `path`: where the plan is; nowhere if empty.
void print_plan(const planner::Plan& plan, const std::string& path, std::ostream& out);
// The same as `--json`.
[[nodiscard]] nlohmann::ordered_json summary_json(const planner::Plan& plan,
                                                  const std::string& path);

}  // namespace tandem::cli
