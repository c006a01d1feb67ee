#include "exec/kernels/cache_kernels.hpp"

#include <array>
#include <cmath>
#include <cstddef>

#include "exec/kernels/cached_row.hpp"

namespace tandem::exec {
namespace {

// In the order of the enumerators.
constexpr std::array kRows{
    CacheKernels{model::CacheFormat::f32, attend_f32, weigh_keys_f32, store_key_f32,
                 store_value_f32, load_key_f32, load_value_f32},
    CacheKernels{model::CacheFormat::f16, attend_f16, weigh_keys_f16, store_key_f16,
                 store_value_f16, load_key_f16, load_value_f16},
    CacheKernels{model::CacheFormat::q8_0, attend_q8_0, weigh_keys_q8_0, store_key_q8_0,
                 store_value_q8_0, load_key_q8_0, load_value_q8_0}};
static_assert(
    [] {
      for (std::size_t i = 0; i < kRows.size(); ++i) {
        if (kRows.at(i).format != model::kCacheFormats.at(i)) return false;
      }
      return kRows.size() == model::kCacheFormats.size();
    }(),
    "a row for each type of cache");

// Returns `a` for keys as they are stored: scores are multiplied by their scale.
Attention of_stored_keys(Attention a) {
  if (a.cache.scales == nullptr) return a;
  if (!(a.scale > 0.0F)) a.scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
  a.scale *= a.cache.scales->key;
  return a;
}

}  // namespace

const CacheKernels& cache_kernels(model::CacheFormat format) {
  return kRows.at(static_cast<std::size_t>(format));
}

void attend(const Attention& a) {
  cache_kernels(a.cache.format).attend(of_stored_keys(a));
  const float scale = a.cache.scales == nullptr ? 1.0F : a.cache.scales->value;
  if (scale == 1.0F) return;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    float* const output = a.output + row * a.output_stride;
    for (std::int64_t i = 0; i < a.group * a.head_dim; ++i) output[i] *= scale;
  }
}

void weigh_keys(const Attention& a, float* sums, std::int64_t stride) {
  cache_kernels(a.cache.format).weigh_keys(of_stored_keys(a), sums, stride);
}

bool store_key(const float* row, std::int64_t position, const CachedHead& cache,
               std::int64_t head_dim) {
  return cache_kernels(cache.format).store_key(row, position, cache, head_dim);
}

bool store_value(const float* row, std::int64_t position, const CachedHead& cache,
                 std::int64_t head_dim) {
  return cache_kernels(cache.format).store_value(row, position, cache, head_dim);
}

void load_key(const CachedHead& cache, std::int64_t position, std::int64_t head_dim, float* row) {
  cache_kernels(cache.format).load_key(cache, position, head_dim, row);
}

void load_value(const CachedHead& cache, std::int64_t position, std::int64_t head_dim, float* row) {
  cache_kernels(cache.format).load_value(cache, position, head_dim, row);
}

}  // namespace tandem::exec
