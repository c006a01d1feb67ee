#pragma once

// The kernels of each type of cache: a row of cache_kernels.cpp. Layouts: attention.hpp.

#include <cstdint>

#include "exec/kernels/attention.hpp"
#include "model/transformer/cache_format.hpp"

namespace tandem::exec {

struct CacheKernels {
  model::CacheFormat format = model::CacheFormat::f32;
  // Of attention.hpp, over keys and values as they are stored: without HeadScales.
  void (*attend)(const Attention& a) = nullptr;
  void (*weigh_keys)(const Attention& a, float* sums, std::int64_t stride) = nullptr;
  // Of cached_row.hpp.
  bool (*store_key)(const float* row, std::int64_t position, const CachedHead& cache,
                    std::int64_t head_dim) = nullptr;
  bool (*store_value)(const float* row, std::int64_t position, const CachedHead& cache,
                      std::int64_t head_dim) = nullptr;
  void (*load_key)(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                   float* row) = nullptr;
  void (*load_value)(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                     float* row) = nullptr;
};

[[nodiscard]] const CacheKernels& cache_kernels(model::CacheFormat format);

void attend_f32(const Attention& a);
void weigh_keys_f32(const Attention& a, float* sums, std::int64_t stride);
bool store_key_f32(const float* row, std::int64_t position, const CachedHead& cache,
                   std::int64_t head_dim);
bool store_value_f32(const float* row, std::int64_t position, const CachedHead& cache,
                     std::int64_t head_dim);
void load_key_f32(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                  float* row);
void load_value_f32(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                    float* row);

void attend_f16(const Attention& a);
void weigh_keys_f16(const Attention& a, float* sums, std::int64_t stride);
bool store_key_f16(const float* row, std::int64_t position, const CachedHead& cache,
                   std::int64_t head_dim);
bool store_value_f16(const float* row, std::int64_t position, const CachedHead& cache,
                     std::int64_t head_dim);
void load_key_f16(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                  float* row);
void load_value_f16(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                    float* row);

void attend_q8_0(const Attention& a);
void weigh_keys_q8_0(const Attention& a, float* sums, std::int64_t stride);
bool store_key_q8_0(const float* row, std::int64_t position, const CachedHead& cache,
                    std::int64_t head_dim);
bool store_value_q8_0(const float* row, std::int64_t position, const CachedHead& cache,
                      std::int64_t head_dim);
void load_key_q8_0(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                   float* row);
void load_value_q8_0(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                     float* row);

}  // namespace tandem::exec
