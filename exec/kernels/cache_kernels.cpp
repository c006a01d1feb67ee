#include "exec/kernels/cache_kernels.hpp"

#include <array>
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

}  // namespace

const CacheKernels& cache_kernels(model::CacheFormat format) {
  return kRows.at(static_cast<std::size_t>(format));
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
