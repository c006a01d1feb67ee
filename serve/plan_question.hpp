#pragma once

// What a page asks the planner: the devices of the service with something changed.

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.hpp"
#include "serve/request_times.hpp"

namespace tandem::serve {

// One request of these lengths on the devices of the service.
struct PlanQuestion {
  std::vector<std::string> without{};  // devices that are away
  std::int64_t prompt_tokens = 0;
  std::int64_t new_tokens = 0;
  std::string format{};  // of the weights; empty: as served
};

// Parses the body of POST /v1/plan:
//   {"without": [NAME, ...], "prompt_tokens": N, "new_tokens": N, "format": "q4_0"}
// `without` and `format` may be left out. Throws ApiError 400 naming the field, its value and what
// was expected.
[[nodiscard]] PlanQuestion parse_plan_question(std::string_view body);

struct PlanFound {
  std::optional<planner::Plan> plan{};  // absent: `reason`
  RequestTimes times{};                 // of a request alone
  std::string reason{};
  bool to_the_end = true;                 // false: the search ended at its limit of time
  std::optional<RequestTimes> present{};  // of the service for the same lengths; absent: its reason
  std::string present_reason{};
};

// Answers on a thread of its own. Throws Error for what cannot be asked.
using AskPlanner = std::function<PlanFound(const PlanQuestion& question)>;

struct PlannerAccess {
  AskPlanner ask{};                   // empty: there is none
  std::string reason{};               // why
  std::function<void()> interrupt{};  // ends the present search soon; any thread
  // Formats of weights that may be asked for, the present one first.
  std::vector<std::string> formats{};
};

// Returns the answer to `question`:
//   question  as it was asked
//   plan      {strategy, devices, times}, devices as of cluster_json; or null
//   reason    why there is no plan, or null
//   to_the_end
//   present   times of the service's own plan, or null; present_reason: why
// Times are {ttft_s, token_latency_s, request_s}.
[[nodiscard]] nlohmann::ordered_json plan_json(const PlanQuestion& question,
                                               const PlanFound& found);

}  // namespace tandem::serve
