#pragma once

// An encoder at work for others: texts are read one after another until their source closes.

#include <vector>

#include "exec/session/interrupt.hpp"
#include "exec/session/master_options.hpp"
#include "exec/session/text_source.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::exec {

// Returns `states`, hidden states of a model. Throws Error if one is not a finite number.
[[nodiscard]] std::vector<float> finite_states(std::vector<float> states,
                                               const model::Transformer& transformer);

// Reads the texts of `source` with `plan`, which is of an encoder and of a strategy for any lengths
// (planner::check_serves_many), until the source closes. `options.prompt` is as long as the longest
// text. Weights are loaded once. Throws as generate() does.
void read_texts(const planner::Plan& plan, const GenerateOptions& options, TextSource& source,
                Interrupt& interrupt);

}  // namespace tandem::exec
