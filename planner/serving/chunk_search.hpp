#pragma once

// The search for the length of a prompt's chunks, by prediction.

#include <cstdint>
#include <span>
#include <variant>

#include "planner/plan/inference_request.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {

// Returns the rows of a chunk that minimise the mean time to the first token of `requests`, by the
// analytic evaluator, within the plan's reserved memory and with at most `steps` in flight (0: as
// many as it reserves); 0: whole prompts. More chunks keep more stages busy at once, but each reads
// all weights. With the longest prompt's P rows in k chunks of ceil(P / k), tries k of 1, 2, 3, 4,
// 6, 8, 12, ... to 256, then the neighbours of the best. Considers the first 16 requests. If
// weights stream, prompts are read whole.
[[nodiscard]] std::int64_t best_chunk(const Plan& plan, std::span<const InferenceRequest> requests,
                                      const Policy& policy, std::int64_t steps);

struct ChunkedPlan {
  Plan plan;
  std::int64_t chunk = 0;
};

// Returns a plan as make_serving_plan does, with memory for chunks of the best length for its
// shares.
[[nodiscard]] std::variant<ChunkedPlan, Infeasible> make_chunked_plan(
    const Request& request, std::span<const InferenceRequest> requests, const Policy& policy,
    std::int64_t steps);

}  // namespace tandem::planner
