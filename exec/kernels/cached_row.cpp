#include "exec/kernels/cached_row.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <stdexcept>

#include "exec/weights/formats/convert.hpp"

namespace tandem::exec {
namespace {

using Half = std::uint16_t;
using Halves = std::array<Half, kMaxHeadDim>;

// Where the key of a position begins; its numbers are kPanel apart.
template <class Number>
Number* key_of(const CachedHead& cache, std::int64_t position, std::int64_t head_dim) {
  const std::int64_t in_block = position % cache.block_positions;
  return cache.block<Number>(position, head_dim) + in_block / kPanel * kPanel * head_dim +
         in_block % kPanel;
}

template <class Number>
void scatter(const Number* row, std::int64_t head_dim, Number* key) {
  for (std::int64_t i = 0; i < head_dim; ++i) key[i * kPanel] = row[i];
}

template <class Number>
void gather(const Number* key, std::int64_t head_dim, Number* row) {
  for (std::int64_t i = 0; i < head_dim; ++i) row[i] = key[i * kPanel];
}

// Whether all numbers are finite in f16.
bool round(const float* row, std::int64_t head_dim, Half* halves) {
  constexpr Half kInfinity = 0x7c00U;
  const auto count = static_cast<std::size_t>(head_dim);
  from_f32(model::DType::f16, {row, count}, std::as_writable_bytes(std::span(halves, count)));
  return std::none_of(halves, halves + count,
                      [](Half half) { return (half & kInfinity) == kInfinity; });
}

void widen(const Half* halves, std::int64_t head_dim, float* row) {
  const auto count = static_cast<std::size_t>(head_dim);
  to_f32(model::DType::f16, std::as_bytes(std::span(halves, count)), {row, count});
}

}  // namespace

bool store_key(const float* row, std::int64_t position, const CachedHead& cache,
               std::int64_t head_dim) {
  switch (cache.format) {
    case model::CacheFormat::f32:
      scatter(row, head_dim, key_of<float>(cache, position, head_dim));
      return true;
    case model::CacheFormat::f16: {
      Halves halves;
      const bool finite = round(row, head_dim, halves.data());
      scatter(halves.data(), head_dim, key_of<Half>(cache, position, head_dim));
      return finite;
    }
  }
  throw std::logic_error("cache format out of range");
}

bool store_value(const float* row, std::int64_t position, const CachedHead& cache,
                 std::int64_t head_dim) {
  switch (cache.format) {
    case model::CacheFormat::f32:
      std::copy_n(row, head_dim, cache.value<float>(position, head_dim));
      return true;
    case model::CacheFormat::f16:
      return round(row, head_dim, cache.value<Half>(position, head_dim));
  }
  throw std::logic_error("cache format out of range");
}

void load_key(const CachedHead& cache, std::int64_t position, std::int64_t head_dim, float* row) {
  switch (cache.format) {
    case model::CacheFormat::f32:
      return gather(key_of<const float>(cache, position, head_dim), head_dim, row);
    case model::CacheFormat::f16: {
      Halves halves;
      gather(key_of<const Half>(cache, position, head_dim), head_dim, halves.data());
      return widen(halves.data(), head_dim, row);
    }
  }
  throw std::logic_error("cache format out of range");
}

void load_value(const CachedHead& cache, std::int64_t position, std::int64_t head_dim, float* row) {
  switch (cache.format) {
    case model::CacheFormat::f32:
      std::copy_n(cache.value<const float>(position, head_dim), head_dim, row);
      return;
    case model::CacheFormat::f16:
      return widen(cache.value<const Half>(position, head_dim), head_dim, row);
  }
  throw std::logic_error("cache format out of range");
}

}  // namespace tandem::exec
