#pragma once

// What a run is asked for: tokens of a model that generates, hidden states of an encoder.

#include <cstdint>
#include <string>

#include "cli/flags/options.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::cli {

// What flag --new-tokens says, `absent` without it; 0 of an encoder. Throws Usage for an encoder
// that is asked for tokens.
[[nodiscard]] std::int64_t new_tokens(const Options& options, const model::Transformer& transformer,
                                      std::int64_t absent);

// Throws Usage if `tandem run` is asked for tokens of an encoder or hidden states of another model.
void check_outcome(const Options& options, const model::Transformer& transformer);

// "64 prompt and 32 new tokens", or "64 tokens, one pass".
[[nodiscard]] std::string to_text(const planner::Workload& workload);

}  // namespace tandem::cli
