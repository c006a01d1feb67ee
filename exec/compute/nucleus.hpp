#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "exec/compute/weighted_token.hpp"

namespace tandem::exec {

// Sorts the nucleus to the front: the likeliest tokens, the smaller id among equals, as many as are
// needed for their weights to reach `enough` (Holtzman et al., 2020). Returns their number, at
// least 1, and the sum of their weights. `total`: the sum of all weights. Same result as sorting
// all.
[[nodiscard]] std::pair<std::size_t, double> select_nucleus(std::span<WeightedToken> candidates,
                                                            double enough, double total);

}  // namespace tandem::exec
