#pragma once

// The file that `tandem plan` writes: a plan, and the requests that it was made for.

#include <optional>
#include <string>
#include <string_view>

#include "planner/plan/plan.hpp"
#include "planner/serving/planned_service.hpp"

namespace tandem::planner {

// The service is for commands that predict and run: devices carry out the plan, and are sent
// nothing else. So plan_sha256() does not cover it.
struct PlanFile {
  Plan plan;
  std::optional<PlannedService> service{};  // absent: one request, of Plan::workload
  bool operator==(const PlanFile&) const = default;
};

// JSON as to_json(plan), with what the service adds: `samples`, or `file`, `sha256`, `raw_prompts`
// and `requests` in `workload`, and `policy`, `chunk` and `in_flight`. Throws Error for more than a
// plan's file may have.
[[nodiscard]] std::string to_json(const PlanFile& file);
// Both parts validated. Throws Error as parse_plan_json does, which reads the plan alone.
[[nodiscard]] PlanFile parse_plan_file(std::string_view text, std::string_view source);

}  // namespace tandem::planner
