#pragma once

// JSON of two or three plans of one strategy that were weighed.

#include <nlohmann/json_fwd.hpp>

#include "planner/moves_choice.hpp"
#include "planner/sp_choice.hpp"

namespace tandem::cli {

// `sp` of `tandem plan --json`.
[[nodiscard]] nlohmann::ordered_json sp_json(const planner::SpChoice& choice);
// `decode_moves` of `tandem plan --json`.
[[nodiscard]] nlohmann::ordered_json moves_json(const planner::MovesChoice& choice);

}  // namespace tandem::cli
