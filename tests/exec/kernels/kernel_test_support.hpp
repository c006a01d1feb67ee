#pragma once

// Random inputs and comparisons for the tests of kernels.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "exec/kernels/targets.hpp"
#include "model/transformer/cache_format.hpp"
#include "tests/support/reference_transformer.hpp"

// After targets.hpp, which says what the kernels are compiled for.
#include <hwy/highway.h>

namespace tandem::testing {

// Runs `body` once with each instruction set that the vector kernels were compiled for and that
// this processor has.
template <class Body>
void for_every_target(const Body& body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    CAPTURE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    body();
    hwy::SetSupportedTargetsForTest(0);
  }
  hwy::GetChosenTarget().DeInit();
}

// The types of cache that heads of `head_dim` may be kept in: whole blocks.
inline std::vector<model::CacheFormat> caches_of(std::int64_t head_dim) {
  std::vector<model::CacheFormat> caches;
  for (const model::CacheFormat format : model::kCacheFormats) {
    if (head_dim % block_of(format).elements == 0) caches.push_back(format);
  }
  return caches;
}

// Uniform in [-1, 1).
inline std::vector<float> random_floats(std::int64_t n, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) v = static_cast<float>(static_cast<double>(engine()) * 0x1p-31 - 1.0);
  return values;
}

inline Matrix as_matrix(std::span<const float> values, std::int64_t rows, std::int64_t columns) {
  Matrix m(rows, columns);
  for (std::size_t i = 0; i < m.values.size(); ++i) m.values[i] = static_cast<double>(values[i]);
  return m;
}

// Rounding of a float sum of `terms` products is at most about eps terms max |sum of magnitudes|;
// accumulated in lanes it is far less. Inputs of order one: terms magnitudes sum to `terms`.
inline double tolerance(std::int64_t terms) {
  return 2.0 * 0x1p-24 * static_cast<double>(terms + 8);
}

// Fails once, with the number and the worst of the values that are further apart than `limit`
// (NaN is).
inline void check_close(std::span<const float> got, const Matrix& wanted, double limit) {
  REQUIRE(got.size() == wanted.values.size());
  std::size_t wrong = 0;
  double worst = 0.0;
  std::size_t worst_at = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - wanted.values[i]);
    if (error <= limit) continue;
    ++wrong;
    if (!(error <= worst)) {
      worst = error;
      worst_at = i;
    }
  }
  CAPTURE(worst);
  CAPTURE(worst_at);
  CAPTURE(limit);
  CHECK(wrong == 0);
}

}  // namespace tandem::testing
