#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::planner {

// Whole shares of `total` that follow the fractional `quotas`, by largest remainder (Hamilton's
// method): every share is its quota rounded down, and what is then missing of `total` goes, one
// each, to the largest fractions first (equal ones: to the smaller index first).
//   quotas  fractional shares, >= 0, that sum to about `total`
//   caps    no share exceeds its cap, which is at least its quota rounded down; empty: none. What a
//           cap refuses goes on to the next largest fraction, and round again.
// The result sums to `total`, unless the caps sum to less. Throws logic_error if sizes differ, a
// quota is negative or not finite, or `total` is less than the rounded quotas.
[[nodiscard]] std::vector<std::int64_t> largest_remainder(std::span<const double> quotas,
                                                          std::int64_t total,
                                                          std::span<const std::int64_t> caps = {});

// Whole shares of `total` in proportion to `weights`: largest_remainder() with the quotas
// total * weight / sum(weights). {1, 1, 2} of 10 are 3, 2 and 5.
[[nodiscard]] std::vector<std::int64_t> proportional_shares(std::span<const double> weights,
                                                            std::int64_t total);

// The same in multiples of `unit`, of which `total` is one, unless that left nothing for some
// weight that would have something of its own: then in multiples of `least`, of which `unit` is
// one. {1, 1, 2} of 64 in units of 16 are 16,
// 16 and 32.
[[nodiscard]] std::vector<std::int64_t> proportional_shares(std::span<const double> weights,
                                                            std::int64_t total, std::int64_t unit,
                                                            std::int64_t least = 1);

}  // namespace tandem::planner
