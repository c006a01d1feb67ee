#pragma once

// Conversion of the key or value of one position between f32 and the cache's type. Attention reads
// what is stored: for f16 the nearest number, ties to even (docs/decisions/0045), times the head's
// scale (docs/decisions/0092); for q8_0 what a message in Q8_0 has of it (wire_row.hpp).

#include <cstdint>

#include "exec/kernels/attention.hpp"

namespace tandem::exec {

// Return whether the cache represents every number; otherwise the stored row is invalid. f32
// represents any. f16 represents numbers whose magnitude, rounded, is at most 65504 times the
// head's scale; with CachedHead::scales, numbers beyond that double the scale until they fit, and
// halve what the head has stored: exact, but for numbers below 2^-14 times the scale. Then only
// numbers that are not finite are not represented. q8_0 represents numbers up to 127 times 65504.
// `row` is [head_dim], at most kMaxHeadDim. Not for two threads at once with the same head.
[[nodiscard]] bool store_key(const float* row, std::int64_t position, const CachedHead& cache,
                             std::int64_t head_dim);
[[nodiscard]] bool store_value(const float* row, std::int64_t position, const CachedHead& cache,
                               std::int64_t head_dim);

// Reads it as stored.
void load_key(const CachedHead& cache, std::int64_t position, std::int64_t head_dim, float* row);
void load_value(const CachedHead& cache, std::int64_t position, std::int64_t head_dim, float* row);

}  // namespace tandem::exec
