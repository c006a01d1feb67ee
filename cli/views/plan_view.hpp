#pragma once

// What a plan holds, as `tandem plan` shows it.

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::cli {

// Prints who holds what.
//   peaks   memory by device
//   path    where the plan is; nowhere if empty
void print_plan(const planner::Plan& plan, std::span<const model::MemoryUse> peaks,
                const std::string& path, std::ostream& out);
// The same as `--json`.
[[nodiscard]] nlohmann::ordered_json summary_json(const planner::Plan& plan,
                                                  std::span<const model::MemoryUse> peaks,
                                                  const std::string& path);
// Returns the peak memory that the plan's file states: enough for any requests within its capacity.
[[nodiscard]] std::vector<model::MemoryUse> reserved_memory(const planner::Plan& plan);

}  // namespace tandem::cli
