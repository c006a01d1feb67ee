#pragma once

// The objective of a plan, and its predicted value.

#include <cstdint>
#include <string_view>

#include "planner/plan/plan.hpp"
#include "planner/search/allreduce_search.hpp"

namespace tandem::planner {

enum class Objective : std::uint8_t {
  request,     // a lone request, prompt and all new tokens
  throughput,  // the time from token to token of many requests together
  ttft,        // a lone request's first token; of an encoder, its pass
  latency,     // the mean time between a lone request's new tokens
};

// "ttft": as in `--objective`.
[[nodiscard]] std::string_view to_string(Objective objective);

// Throws Error for the latency of fewer than two new tokens.
void check_objective(const Workload& workload, Objective objective);

// Returns the objective of the plan's workload in seconds, for a lone request, by `evaluate`
// (throughput: as `request`). Throws Error for the latency of fewer than two new tokens.
[[nodiscard]] double predicted_time(const Plan& plan, Objective objective,
                                    const Evaluator& evaluate);

}  // namespace tandem::planner
