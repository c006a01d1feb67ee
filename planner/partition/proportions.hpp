#pragma once

#include <span>
#include <string_view>

#include "planner/partition/budget.hpp"

namespace tandem::planner {

// "A:B:C": one positive number a device of the cluster. Throws Error naming the text, the device
// and what was expected.
[[nodiscard]] std::vector<double> parse_proportions(std::string_view text,
                                                    const model::Cluster& cluster);

// Heads in these proportions, in Transformer::head_unit where that divides them and leaves
// something for everybody: no block of `out` is then stored twice.
[[nodiscard]] std::vector<std::int64_t> proportional_heads(const model::Transformer& transformer,
                                                           std::span<const double> proportions);

// Heads and columns in these proportions (equal ones: an even split), by largest remainder, columns
// in units (column_unit) where that leaves something for everybody; memory is not looked at.
[[nodiscard]] Split proportional_split(const model::Transformer& transformer,
                                       std::span<const double> proportions);

}  // namespace tandem::planner
