#pragma once

// JSON of what prompts of a workload have in common. Internal: used by readers and writers of
// workloads and plans.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "model/base/json_value.hpp"
#include "planner/plan/inference_request.hpp"

namespace tandem::planner {

// Reads [{"group": NAME, "tokens": N}, ...], of at most `most` tokens together. Throws Error naming
// field, value, expected value and remedy.
[[nodiscard]] std::vector<PrefixPiece> read_prefix(const model::JsonValue& value,
                                                   std::int64_t most);
[[nodiscard]] nlohmann::ordered_json prefix_json(const std::vector<PrefixPiece>& prefix);

}  // namespace tandem::planner
