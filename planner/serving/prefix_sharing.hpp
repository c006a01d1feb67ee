#pragma once

// Which requests share the caches of common prefixes (request_scheduler.hpp), and what that saves.

#include <span>
#include <string>

#include "model/report/result.hpp"
#include "planner/plan/inference_request.hpp"

namespace tandem::planner {

struct Plan;

// Returns why requests to `plan` cannot share prefixes; empty: they can.
[[nodiscard]] std::string prefix_refusal(const Plan& plan,
                                         std::span<const InferenceRequest> requests);

// Returns whether a workload states what its prompts have in common.
[[nodiscard]] bool states_prefixes(std::span<const InferenceRequest> requests);

// Sets the part of the requests' prompts that was not read, from their results and the schedule.
void set_prefix_hits(model::Result& result);

}  // namespace tandem::planner
