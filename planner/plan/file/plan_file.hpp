#pragma once

// The file that `tandem plan` writes: a plan and the requests that it was made for.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/predict/device_share.hpp"
#include "planner/plan/file/plan_loss.hpp"
#include "planner/plan/plan.hpp"
#include "planner/serving/planned_service.hpp"

namespace tandem::planner {

// The end of a search at a limit: another search may find a better plan.
struct SearchCut {
  std::int64_t evaluations = 0;  // predictions that were made
  bool operator==(const SearchCut&) const = default;
};

// What the search chose on one axis.
struct PlanDecision {
  std::string axis{};           // "strategy", "tiles"
  std::string value{};          // the one that was chosen
  std::int64_t considered = 1;  // values that were weighed, those without a plan included
  bool operator==(const PlanDecision&) const = default;
};

// Only commands that predict and run use the service. Devices receive the plan alone, so
// plan_sha256() does not cover the service.
struct PlanFile {
  Plan plan;
  std::optional<PlannedService> service{};  // absent: one request, of Plan::workload
  std::optional<SearchCut> search{};        // absent: the search was made to the end
  // Of devices that are used in part, by name: the plan's cluster has what their share leaves.
  std::map<std::string, model::DeviceShare> shares{};
  // Outer axes first; axes that were given or do not apply are absent, as all are in older files.
  std::vector<PlanDecision> decisions{};
  std::optional<PlanLoss> loss{};  // absent: not bounded, so not known
  bool operator==(const PlanFile&) const = default;
};

// Returns JSON as to_json(plan), plus the service: `samples`, or `file`, `sha256`, `raw_prompts`
// and `requests` in `workload`, and `policy`, `chunk` and `in_flight`; `search`; `shares`;
// `decisions`; and `loss`. Throws Error if the file would exceed the limit of plan files.
[[nodiscard]] std::string to_json(const PlanFile& file);
// Returns both parts, validated. Throws Error as parse_plan_json does, which reads the plan alone.
[[nodiscard]] PlanFile parse_plan_file(std::string_view text, std::string_view source);

}  // namespace tandem::planner
