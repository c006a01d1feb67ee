#pragma once

// The search for the length of a prompt's chunks and the steps in flight, by prediction.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <variant>

#include "planner/plan/inference_request.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {

// Returns the rows of a chunk that minimise the objective of `requests` (of one request the time to
// its first token, since later tokens do not depend on chunks), by the analytic evaluator, within
// the plan's reserved memory and with at most `steps` in flight (0: as many as it reserves); 0:
// whole prompts. More chunks keep more stages busy at once and let others' new tokens pass, but
// each reads all weights. With the longest prompt's P rows in k chunks of ceil(P / k), tries k of
// 1, 2, 3, 4, 6, 8, 12, ... to 256 (of several requests 1, 2, 4, ... to 32), then the neighbours of
// the best. Considers the first 16 requests and 64 new tokens of each: what follows once all
// prompts are read takes the same time whatever the chunks were. If weights stream, prompts are
// read whole.
[[nodiscard]] std::int64_t best_chunk(const Plan& plan, std::span<const InferenceRequest> requests,
                                      const Policy& policy, Objective objective,
                                      std::int64_t steps);

// Returns the rows of 512, 256, 128, ... 1, fewer than `prompt`, that are the first for which
// `fits` returns true; 0: none. The largest is llama.cpp's micro-batch. Shorter steps need less
// memory, so where one row does not fit nothing does, and that is asked first.
[[nodiscard]] std::int64_t longest_fitting_step(std::int64_t prompt,
                                                const std::function<bool(std::int64_t rows)>& fits);

// Returns a plan as make_serving_plan does. With `steps` 0 and one request on stages, as many steps
// are in flight as bring its first token earliest to 0.1% and fit in memory, at least
// useful_steps(): more than one a stage hide the time that messages take between stages.
[[nodiscard]] std::variant<Plan, Infeasible> make_plan_in_flight(
    const Request& request, std::span<const InferenceRequest> requests, const Policy& policy,
    std::int64_t chunk, std::int64_t steps);

struct ChunkedPlan {
  Plan plan;
  std::int64_t chunk = 0;  // 0: whole prompts
};

// Returns `plan` with other memory for one request on its stages: for chunks of `chunk` rows (0: of
// the best length for its shares) with as many steps in flight as make_plan_in_flight() finds.
// Nothing if that does not fit, or whole prompts are best. `request`: what it was made for.
[[nodiscard]] std::optional<ChunkedPlan> read_again(const Request& request, const Plan& plan,
                                                    std::span<const InferenceRequest> requests,
                                                    const Policy& policy, std::int64_t chunk,
                                                    std::int64_t steps);

// Returns a plan with whole prompts or, where those do not fit with all weights, in chunks of
// longest_fitting_step() rows.
[[nodiscard]] std::variant<ChunkedPlan, Infeasible> make_fitting_plan(
    const Request& request, std::span<const InferenceRequest> requests, const Policy& policy,
    std::int64_t steps);

// Returns a plan with memory for chunks of the best length for its shares, if that is better than
// make_fitting_plan()'s by the request's objective.
[[nodiscard]] std::variant<ChunkedPlan, Infeasible> make_chunked_plan(
    const Request& request, std::span<const InferenceRequest> requests, const Policy& policy,
    std::int64_t steps);

}  // namespace tandem::planner
