#pragma once

#include <vector>

#include "exec/compute/weighted_token.hpp"

namespace tandem::exec {

// Removes the tokens with less than `min_p` times the probability of the likeliest token, whose
// weight is 1 (Nguyen et al., 2024). Returns the sum of the weights that are left.
[[nodiscard]] double keep_probable(std::vector<WeightedToken>& tokens, double min_p);

}  // namespace tandem::exec
