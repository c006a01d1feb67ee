#pragma once

// What lets a model fit into memory that it does not fit, beside more memory.

#include <optional>
#include <string>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Returns the narrowest type that the model's keys and values may have; nothing if they have it, or
// none are kept.
[[nodiscard]] std::optional<model::CacheFormat> narrowest_cache(
    const model::Transformer& transformer);

// Returns the remedies of a model that does not fit, in one line: fewer tokens, ...
[[nodiscard]] std::string more_memory(const model::Transformer& transformer);

// Returns those of chunks and of a narrower cache that would, alone, let all weights of `plan` stay
// in memory, with its shares: "prompts in chunks (--chunk auto), "; empty: none, or nothing
// streams.
[[nodiscard]] std::string without_streams(const Plan& plan);

}  // namespace tandem::planner
