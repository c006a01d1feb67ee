#pragma once

// Which models a strategy can plan.

#include <string>

#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// Returns why `strategy` cannot plan `model`, as "exchanges keys and values by heads, and latent
// attention has one row for all heads"; empty: it can. Strategies that replicate weights exchange
// keys and values, or weights as single messages: they plan neither latent attention nor experts.
[[nodiscard]] std::string model_obstacle(const Strategy& strategy, const model::Transformer& model);

// Throws Error naming strategy, model and the strategies that can, if there is an obstacle.
void check_model_support(const Strategy& strategy, const model::Transformer& model);

}  // namespace tandem::planner
