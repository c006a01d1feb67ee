#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::planner {

// Returns integer shares of `total` close to the fractional `quotas`, by largest remainder
// (Hamilton's method): every share is its quota rounded down, and the rest of `total` goes, one
// unit each, to the largest fractions first, ties to the smaller index.
//   quotas  fractional shares, >= 0, that sum to about `total`
//   caps    upper limits of shares, each at least its quota rounded down; empty: none. Units above
//   a
//           cap go to the next largest fraction, cyclically.
// The result sums to `total`, unless the caps sum to less. Throws logic_error if sizes differ, a
// quota is negative or not finite, or `total` is less than the rounded quotas.
[[nodiscard]] std::vector<std::int64_t> largest_remainder(std::span<const double> quotas,
                                                          std::int64_t total,
                                                          std::span<const std::int64_t> caps = {});

// Returns integer shares of `total` in proportion to `weights`: largest_remainder() with the quotas
// total * weight / sum(weights). {1, 1, 2} of 10 are 3, 2 and 5.
[[nodiscard]] std::vector<std::int64_t> proportional_shares(std::span<const double> weights,
                                                            std::int64_t total);

// The same in multiples of `unit`, which divides `total`; in multiples of `least`, which divides
// `unit`, if a positive weight would otherwise get nothing although it would get something in that.
// {1, 1, 2} of 64 in units of 16 are 16, 16 and 32.
[[nodiscard]] std::vector<std::int64_t> proportional_shares(std::span<const double> weights,
                                                            std::int64_t total, std::int64_t unit,
                                                            std::int64_t least = 1);

}  // namespace tandem::planner
