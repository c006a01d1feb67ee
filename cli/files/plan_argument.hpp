#pragma once

#include <string>

#include "planner/plan/file/plan_file.hpp"

namespace tandem::cli {

// Checks that the argument plan.json names a path that exists. Throws Error for another word, with
// what it is instead if tandem knows a platform or a model of that name, else with `remedy`.
void check_plan_argument(const std::string& path, const std::string& remedy = "check the path");

// Reads that plan file. Throws Error as check_plan_argument and parse_plan_file do.
[[nodiscard]] planner::PlanFile plan_argument(const std::string& path);

}  // namespace tandem::cli
