#pragma once

// Comparisons of the reference kernels with the tuned ones.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exec/kernels/kernel_table.hpp"
#include "tests/exec/kernels/kernel_test_support.hpp"

namespace tandem::testing {

inline constexpr std::int64_t kSizes[] = {1, 2, 3, 7, 8, 16, 17, 31, 64, 127, 768, 1009};
inline constexpr std::uint32_t kSeeds[] = {1, 20, 300};
inline constexpr double kEpsilon = 0x1p-23;

inline std::vector<float> scaled(std::vector<float> values, float by) {
  for (float& value : values) value *= by;
  return values;
}

// Row `row` of rows of `stride` numbers.
inline std::vector<float> part(const std::vector<float>& rows, std::int64_t row,
                               std::int64_t stride) {
  return {rows.begin() + row * stride, rows.begin() + (row + 1) * stride};
}

// Fails where the two differ by more than 2 `limit`: each may be wrong by `limit`.
inline void check_equal(const std::vector<float>& tuned, const std::vector<float>& eigen,
                        double limit) {
  check_close(tuned, as_matrix(eigen, 1, static_cast<std::int64_t>(eigen.size())), 2.0 * limit);
}

// check_equal() of the numbers that make(kernels) returns, with each instruction set of the tuned
// kernels.
template <class Make>
void compare(double limit, const Make& make) {
  const std::vector<float> eigen = make(exec::eigen_kernels());
  for_every_target([&] { check_equal(make(exec::tuned_kernels()), eigen, limit); });
}

}  // namespace tandem::testing
