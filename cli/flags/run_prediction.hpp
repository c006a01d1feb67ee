#pragma once

// The flag --predicted of `tandem run`.

#include <cstdint>
#include <filesystem>
#include <string>

#include "cli/flags/workload_flags.hpp"
#include "model/report/result.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::cli {

// What a run is about to do.
struct PlannedRun {
  const planner::Plan& plan;
  std::int64_t prompt_tokens = 0;  // of one request
  std::int64_t new_tokens = 0;     // of one request; 0: an encoder's pass
  const Served* served = nullptr;  // of many; null: one
};

// Reads the result at `path`. Throws Error, naming the field, its value, what was expected and the
// remedy, unless it is a prediction of this plan for the same request, or for the same requests
// under the same policy.
[[nodiscard]] model::Result read_prediction(const std::string& path, const PlannedRun& run);

}  // namespace tandem::cli
