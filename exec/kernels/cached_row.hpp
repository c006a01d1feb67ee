#pragma once

// Conversion of the key or value of one position between f32 and the cache's type. Attention reads
// what is stored: for f16 the nearest number, ties to even (docs/decisions/0045).

#include <cstdint>

#include "exec/kernels/attention.hpp"

namespace tandem::exec {

// Return whether the cache's type represents every number: for f16 numbers whose magnitude,
// rounded, is at most 65504; for f32 any. Otherwise the stored row is invalid. `row` is [head_dim],
// at most kMaxHeadDim.
[[nodiscard]] bool store_key(const float* row, std::int64_t position, const CachedHead& cache,
                             std::int64_t head_dim);
[[nodiscard]] bool store_value(const float* row, std::int64_t position, const CachedHead& cache,
                               std::int64_t head_dim);

// Reads it as stored.
void load_key(const CachedHead& cache, std::int64_t position, std::int64_t head_dim, float* row);
void load_value(const CachedHead& cache, std::int64_t position, std::int64_t head_dim, float* row);

}  // namespace tandem::exec
