#pragma once

// Text and JSON of plans of one strategy that were weighed.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/search/device_choice.hpp"
#include "planner/search/moves_choice.hpp"
#include "planner/search/sp_choice.hpp"

namespace tandem::cli {

// `sp` of `tandem plan --json`.
[[nodiscard]] nlohmann::ordered_json sp_json(const planner::SpChoice& choice);
// `decode_moves` of `tandem plan --json`.
[[nodiscard]] nlohmann::ordered_json moves_json(const planner::DecodeChoice& choice);

// How many devices of `all` hold the plan, and why fewer do not: a line, and `fewest` of the JSON.
[[nodiscard]] std::string fewest_text(const planner::FewestDevices& few, const model::Cluster& all);
[[nodiscard]] nlohmann::ordered_json fewest_json(const planner::FewestDevices& few,
                                                 const model::Cluster& all);

}  // namespace tandem::cli
