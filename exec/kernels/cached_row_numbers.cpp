// Rows of caches in F32 and F16.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/kernels/cache_kernels.hpp"
#include "exec/weights/formats/convert.hpp"

namespace tandem::exec {
namespace {

using Half = std::uint16_t;
using Halves = std::array<Half, kMaxHeadDim>;

// Where the key of a position begins; its numbers are kPanel apart.
template <class Number>
Number* key_of(const CachedHead& cache, std::int64_t position, std::int64_t head_dim) {
  return cache.panel<Number>(position, head_dim) + position % kPanel;
}

template <class Number>
void scatter(const Number* row, std::int64_t head_dim, Number* key) {
  for (std::int64_t i = 0; i < head_dim; ++i) key[i * kPanel] = row[i];
}

template <class Number>
void gather(const Number* key, std::int64_t head_dim, Number* row) {
  for (std::int64_t i = 0; i < head_dim; ++i) row[i] = key[i * kPanel];
}

// Whether all numbers, divided by `scale`, are finite in f16.
bool round(const float* row, std::int64_t head_dim, float scale, Half* halves) {
  constexpr Half kInfinity = 0x7c00U;
  const auto count = static_cast<std::size_t>(head_dim);
  std::array<float, kMaxHeadDim> divided;
  if (scale != 1.0F) {
    std::transform(row, row + head_dim, divided.begin(), [&](float x) { return x / scale; });
    row = divided.data();
  }
  from_f32(model::DType::f16, {row, count}, std::as_writable_bytes(std::span(halves, count)));
  return std::none_of(halves, halves + count,
                      [](Half half) { return (half & kInfinity) == kInfinity; });
}

void widen(const Half* halves, std::int64_t head_dim, float* row) {
  const auto count = static_cast<std::size_t>(head_dim);
  to_f32(model::DType::f16, std::as_bytes(std::span(halves, count)), {row, count});
}

// Keys or values of a head: a part of each of its blocks, and their scale.
struct Stored {
  std::int64_t begin = 0;  // in a block
  std::int64_t numbers = 0;
  float* scale = nullptr;  // null: 1, for good
};

Stored keys_of(const CachedHead& cache, std::int64_t head_dim) {
  return {0, key_numbers(cache.block_positions, head_dim),
          cache.scales == nullptr ? nullptr : &cache.scales->key};
}

Stored values_of(const CachedHead& cache, std::int64_t head_dim) {
  return {key_numbers(cache.block_positions, head_dim), cache.block_positions * head_dim,
          cache.scales == nullptr ? nullptr : &cache.scales->value};
}

float scale_of(const Stored& stored) { return stored.scale == nullptr ? 1.0F : *stored.scale; }

// Sets the scale, and divides what is stored by as much.
void rescale(const CachedHead& cache, std::int64_t head_dim, const Stored& stored, float scale) {
  const float factor = scale / *stored.scale;
  *stored.scale = scale;
  const std::int64_t block = block_numbers(cache.block_positions, head_dim);
  std::array<float, kMaxHeadDim> some;
  for (std::int64_t b = 0; b < cache.head_blocks; ++b) {
    Half* const halves = reinterpret_cast<Half*>(cache.memory) + b * block + stored.begin;
    for (std::int64_t at = 0; at < stored.numbers; at += kMaxHeadDim) {
      const std::int64_t count = std::min(kMaxHeadDim, stored.numbers - at);
      widen(halves + at, count, some.data());
      (void)round(some.data(), count, factor, halves + at);
    }
  }
}

// Whether all numbers of `row` are finite: `halves` are the row, divided by a scale that suffices.
bool round_to_fit(const float* row, std::int64_t head_dim, const CachedHead& cache,
                  const Stored& stored, Half* halves) {
  float scale = scale_of(stored);
  if (round(row, head_dim, scale, halves)) return true;
  if (stored.scale == nullptr ||
      !std::all_of(row, row + head_dim, [](float x) { return std::isfinite(x); }))
    return false;
  do {
    scale *= 2.0F;
  } while (!round(row, head_dim, scale, halves));
  rescale(cache, head_dim, stored, scale);
  return round(row, head_dim, scale, halves);  // again: they may be among what was rescaled
}

void load(const Half* halves, std::int64_t head_dim, float scale, float* row) {
  widen(halves, head_dim, row);
  if (scale == 1.0F) return;
  for (std::int64_t i = 0; i < head_dim; ++i) row[i] *= scale;
}

}  // namespace

bool store_key_f32(const float* row, std::int64_t position, const CachedHead& cache,
                   std::int64_t head_dim) {
  scatter(row, head_dim, key_of<float>(cache, position, head_dim));
  return true;
}

bool store_value_f32(const float* row, std::int64_t position, const CachedHead& cache,
                     std::int64_t head_dim) {
  std::copy_n(row, head_dim, cache.value<float>(position, head_dim));
  return true;
}

void load_key_f32(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                  float* row) {
  gather(key_of<const float>(cache, position, head_dim), head_dim, row);
}

void load_value_f32(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                    float* row) {
  std::copy_n(cache.value<const float>(position, head_dim), head_dim, row);
}

bool store_key_f16(const float* row, std::int64_t position, const CachedHead& cache,
                   std::int64_t head_dim) {
  Halves halves;
  const bool finite = round_to_fit(row, head_dim, cache, keys_of(cache, head_dim), halves.data());
  scatter(halves.data(), head_dim, key_of<Half>(cache, position, head_dim));
  return finite;
}

bool store_value_f16(const float* row, std::int64_t position, const CachedHead& cache,
                     std::int64_t head_dim) {
  return round_to_fit(row, head_dim, cache, values_of(cache, head_dim),
                      cache.value<Half>(position, head_dim));
}

void load_key_f16(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                  float* row) {
  Halves halves;
  gather(key_of<const Half>(cache, position, head_dim), head_dim, halves.data());
  load(halves.data(), head_dim, scale_of(keys_of(cache, head_dim)), row);
}

void load_value_f16(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                    float* row) {
  load(cache.value<const Half>(position, head_dim), head_dim, scale_of(values_of(cache, head_dim)),
       row);
}

}  // namespace tandem::exec
