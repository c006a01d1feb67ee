#pragma once

// What replicas would gain, for many requests.

#include <optional>

#include "advice/free/free_changes.hpp"

namespace tandem::study {

// Searches, within `limits` and until `all` is interrupted, for the best division of the question's
// devices among replicas (advice/replica_search.hpp), whose requests go where the least work is.
// Impossible, with the reason, where no division has plans; nothing if none was found before the
// search was cut. Its flags are those of `tandem plan` alone: replicas choose their
// strategies.
[[nodiscard]] std::optional<FreeChange> replicas_change(const Question& question,
                                                        const planner::SearchEffort::Limits& limits,
                                                        const planner::SearchEffort& all);

}  // namespace tandem::study
