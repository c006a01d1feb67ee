#pragma once

// The objective of many requests, from their times.

#include "model/report/result.hpp"
#include "planner/search/objective.hpp"

namespace tandem::planner {

// Returns the objective of `result`'s requests in seconds: their means or, for throughput, the time
// from token to token (from pass to pass of an encoder). Throws Error for the latency of requests
// of which none has two new tokens.
[[nodiscard]] double service_time(const model::Result& result, Objective objective);

}  // namespace tandem::planner
