#pragma once

#include <span>
#include <string_view>

#include "planner/partition/budget.hpp"

namespace tandem::planner {

// Parses "A:B:C": one positive number for each device of the cluster. Throws Error naming the text,
// the device and what was expected.
[[nodiscard]] std::vector<double> parse_proportions(std::string_view text,
                                                    const model::Cluster& cluster);

// Returns heads in these proportions, in units of Transformer::head_unit if that divides them and
// leaves every device something: no block of `out` is then stored twice.
[[nodiscard]] std::vector<std::int64_t> proportional_heads(const model::Transformer& transformer,
                                                           std::span<const double> proportions);

// Returns heads and columns in these proportions (equal ones: an even split), by largest remainder,
// columns in column_unit if that leaves every device something. Ignores memory.
[[nodiscard]] Split proportional_split(const model::Transformer& transformer,
                                       std::span<const double> proportions);

}  // namespace tandem::planner
