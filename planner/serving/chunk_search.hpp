#pragma once

// How long the chunks are in which prompts are read: found by prediction.

#include <cstdint>
#include <span>
#include <variant>

#include "planner/plan/inference_request.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {

// The rows of a chunk with which the first tokens of `requests` are earliest in the mean, by the
// analytic evaluator, served within what `plan` reserves memory for with at most `steps` in flight
// (0: as many as it reserves); 0: prompts whole. More chunks keep more stages busy at once, but
// each reads all weights. Of the longest prompt's P rows in k chunks, ceil(P / k): k of 1, 2, 3, 4,
// 6, 8, 12, ... to 256 are tried, then those beside the best. Of many requests the first 16 are
// considered. Where weights stream, prompts are read whole.
[[nodiscard]] std::int64_t best_chunk(const Plan& plan, std::span<const InferenceRequest> requests,
                                      const Policy& policy, std::int64_t steps);

struct ChunkedPlan {
  Plan plan;
  std::int64_t chunk = 0;
};

// A plan as make_serving_plan makes it, with memory for chunks of the length that is best with its
// shares.
[[nodiscard]] std::variant<ChunkedPlan, Infeasible> make_chunked_plan(
    const Request& request, std::span<const InferenceRequest> requests, const Policy& policy,
    std::int64_t steps);

}  // namespace tandem::planner
