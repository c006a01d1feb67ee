#pragma once

// The time that an objective compares, of a prediction.

#include "model/report/result.hpp"
#include "planner/search/objective.hpp"

namespace tandem::study {

// Returns the mean over the result's requests of their times (request), first tokens (ttft) or
// gaps between tokens (latency), or the time from token to token of all (throughput; of an encoder
// from pass to pass). Seconds. Throws Error for latency if no request has two new tokens.
[[nodiscard]] double objective_seconds(const model::Result& result, planner::Objective objective);

}  // namespace tandem::study
