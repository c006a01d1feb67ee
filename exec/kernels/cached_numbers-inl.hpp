// Numbers of a cache as they are stored, and vectors of them as F32.
// Included once for each target, by Highway's convention, after <hwy/highway.h> and attention.hpp.

#if defined(TANDEM_EXEC_KERNELS_CACHED_NUMBERS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_EXEC_KERNELS_CACHED_NUMBERS_INL_HPP
#undef TANDEM_EXEC_KERNELS_CACHED_NUMBERS_INL_HPP
#else
#define TANDEM_EXEC_KERNELS_CACHED_NUMBERS_INL_HPP
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "exec/kernels/partial-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tandem::exec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
// At most kPanel lanes: a vector never straddles two panels.
using Floats = hn::CappedTag<float, kPanel>;
using V = hn::Vec<Floats>;

// Of an F16 cache: the bits of a number.
using Half = std::uint16_t;
// Of a Q8_0 cache: a byte, to be multiplied by the scale of its kScaled numbers. The positions of a
// vector of keys each have a scale; the numbers of a vector of values have one.
struct KeyLevel {
  std::int8_t level;
};
struct ValueLevel {
  std::int8_t level;
};
constexpr std::int64_t kScaled = model::block_of(model::CacheFormat::q8_0).elements;

template <class Number>
constexpr bool kHasScales = std::is_same_v<Number, KeyLevel> || std::is_same_v<Number, ValueLevel>;
template <class Number>
constexpr bool kIsNarrow = sizeof(Number) < sizeof(float);
// The values of a cache whose keys are `Number`s.
template <class Number>
using ValueOf = std::conditional_t<std::is_same_v<Number, KeyLevel>, ValueLevel, Number>;

// Returns how many `Number`s of memory so many numbers take, their scales included.
template <class Number>
constexpr std::int64_t stored(std::int64_t count) {
  return kHasScales<Number> ? model::cache_bytes(model::CacheFormat::q8_0, count) : count;
}

HWY_INLINE V numbers(const float* from) { return hn::LoadU(Floats(), from); }
HWY_INLINE V numbers(const Half* from) {
  const hn::Rebind<hwy::float16_t, Floats> half;
  return hn::PromoteTo(Floats(), hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from)));
}
// Without their scales.
template <class Level>
requires kHasScales<Level> HWY_INLINE V numbers(const Level* from) {
  const hn::Rebind<std::int8_t, Floats> bytes;
  const hn::Rebind<std::int32_t, Floats> integers;
  return hn::ConvertTo(
      Floats(),
      hn::PromoteTo(integers, hn::LoadU(bytes, reinterpret_cast<const std::int8_t*>(from))));
}
template <class Number>
HWY_INLINE V numbers(const Number* from, Whole) {
  return numbers(from);
}
HWY_INLINE V numbers(const float* from, First part) { return load(Floats(), from, part); }
HWY_INLINE V numbers(const Half* from, First part) {
  HWY_ALIGN Half lanes[hn::MaxLanes(Floats())] = {};
  for (std::int64_t i = 0; i < part.n; ++i) lanes[i] = from[i];
  return numbers(lanes);
}

// Where the scales of a row's C vectors are: nowhere if its numbers have none.
template <int C, class Number>
struct Scales {};
template <int C>
struct Scales<C, KeyLevel> {
  const Half* at[C];  // of all rows
};
template <int C>
struct Scales<C, ValueLevel> {
  const Half* at[C];  // of the first row
};
// So many vectors of values, from a multiple of as many on, share a scale.
constexpr int kVectorsOfScale =
    static_cast<int>(kScaled) / static_cast<int>(hn::MaxLanes(Floats()));

// The scale that is `bytes` after the first row's, in all lanes.
HWY_INLINE V scale_of_row(const Half* first, std::int64_t bytes) {
  const hn::Rebind<std::uint16_t, Floats> bits;
  const hn::Rebind<hwy::float16_t, Floats> half;
  const auto* const at =
      reinterpret_cast<const Half*>(reinterpret_cast<const std::byte*>(first) + bytes);
  return hn::PromoteTo(Floats(), hn::BitCast(half, hn::Set(bits, *at)));
}

// A panel of keys: [head_dim][kPanel] levels, then [head_dim / kScaled][kPanel] scales.
HWY_INLINE const Half* panel_scales(const KeyLevel* panel, std::int64_t head_dim) {
  return reinterpret_cast<const Half*>(panel + kPanel * head_dim);
}
// A row of values: blocks of a scale and kScaled levels. Returns the block of a column.
HWY_INLINE const ValueLevel* value_block(const ValueLevel* row, std::int64_t column) {
  return row + column / kScaled * stored<ValueLevel>(kScaled);
}
HWY_INLINE const ValueLevel* value_level(const ValueLevel* row, std::int64_t column) {
  return value_block(row, column) + sizeof(Half) + column % kScaled;
}

// Makes `positions` of keys, whole panels, and values F32.
HWY_INLINE void widen_keys(const Half* keys, std::int64_t positions, std::int64_t head_dim,
                           float* HWY_RESTRICT wide) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < key_numbers(positions, head_dim); i += lanes)
    hn::StoreU(numbers(keys + i), d, wide + i);
}
HWY_INLINE void widen_values(const Half* values, std::int64_t positions, std::int64_t head_dim,
                             float* HWY_RESTRICT wide) {
  const Floats d;
  for_vectors(d, positions * head_dim, [&](std::int64_t i, auto part) {
    store(numbers(values + i, part), d, wide + i, part);
  });
}
HWY_INLINE void widen_keys(const KeyLevel* keys, std::int64_t positions, std::int64_t head_dim,
                           float* HWY_RESTRICT wide) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t p = 0; p < positions; p += kPanel) {
    const KeyLevel* const panel = keys + stored<KeyLevel>(p * head_dim);
    const Half* const scales = panel_scales(panel, head_dim);
    for (std::int64_t lane = 0; lane < kPanel; lane += lanes) {
      for (std::int64_t i = 0; i < head_dim; ++i) {
        const std::int64_t at = i * kPanel + lane;
        const V scale = numbers(scales + i / kScaled * kPanel + lane);
        hn::StoreU(hn::Mul(numbers(panel + at), scale), d, wide + p * head_dim + at);
      }
    }
  }
}
HWY_INLINE void widen_values(const ValueLevel* values, std::int64_t positions,
                             std::int64_t head_dim, float* HWY_RESTRICT wide) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t block = 0; block < positions * head_dim; block += kScaled) {
    const ValueLevel* const from = value_block(values, block);
    const V scale = scale_of_row(reinterpret_cast<const Half*>(from), 0);
    for (std::int64_t i = 0; i < kScaled; i += lanes)
      hn::StoreU(hn::Mul(numbers(value_level(from, i)), scale), d, wide + block + i);
  }
}

}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
