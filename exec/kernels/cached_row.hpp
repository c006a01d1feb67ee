#pragma once

// The key or value of one position, between f32 and the type of its cache. What is stored is what
// attention reads: of f16 the nearest number, ties to even (docs/decisions/0045).

#include <cstdint>

#include "exec/kernels/attention.hpp"

namespace tandem::exec {

// Return whether the cache's type has every number: of f16 whether it is one and its magnitude at
// most 65504, rounded; of f32 always. If not, what is stored is of no use. `row` is [head_dim], at
// most kMaxHeadDim.
[[nodiscard]] bool store_key(const float* row, std::int64_t position, const CachedHead& cache,
                             std::int64_t head_dim);
[[nodiscard]] bool store_value(const float* row, std::int64_t position, const CachedHead& cache,
                               std::int64_t head_dim);

// As it was stored.
void load_key(const CachedHead& cache, std::int64_t position, std::int64_t head_dim, float* row);
void load_value(const CachedHead& cache, std::int64_t position, std::int64_t head_dim, float* row);

}  // namespace tandem::exec
