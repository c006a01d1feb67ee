// Rows of block formats that have no products of their own, as f32: bit for bit the codec's numbers
// (exec/weights/formats/block_codec), so each with the same operations in the same order, none of
// them fused.

#include <cstddef>
#include <cstring>

#include "exec/kernels/weight_product.hpp"
#include "exec/weights/formats/block_codec.hpp"
#include "exec/weights/formats/convert.hpp"
#include "exec/weights/formats/k_codec.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/block_unpack.cpp"
#include "exec/kernels/targets.hpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::exec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using model::WeightFormat;
using Floats = hn::CappedTag<float, 16>;
using Ints = hn::RebindToSigned<Floats>;
using V = hn::Vec<Floats>;
using I = hn::Vec<Ints>;

constexpr std::int64_t kShort = 32;  // weights of a short block

HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(Floats())); }

HWY_INLINE float half_at(const std::byte* from) {
  std::uint16_t half = 0;
  std::memcpy(&half, from, sizeof half);
  return f16_to_f32(half);
}

HWY_INLINE int byte_at(const std::byte* from) { return std::to_integer<int>(*from); }

HWY_INLINE I bytes_at(const std::byte* from) {
  const hn::Rebind<std::uint8_t, Ints> d;
  return hn::PromoteTo(Ints(), hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(from)));
}

// 1, 2, 4 and so on: lane i has bit i alone.
HWY_INLINE I lane_bits() {
  alignas(64) std::int32_t bits[16];
  for (int i = 0; i < 16; ++i) bits[i] = 1 << i;
  return hn::Load(Ints(), bits);
}

// `then` in the lanes whose bit of `bits` is set, else 0.
HWY_INLINE I where(std::uint32_t bits, I lane, I then) {
  const I all = hn::Set(Ints(), static_cast<std::int32_t>(bits));
  return hn::IfThenElseZero(hn::TestBit(all, lane), then);
}

// q4_1, q5_0 and q5_1, as Halves in block_codec.cpp.
template <bool kLeast, bool kFifth>
HWY_INLINE void halves(const std::byte* row, std::int64_t count, float* HWY_RESTRICT out) {
  constexpr std::int64_t kBits = kLeast ? 4 : 2;
  constexpr std::int64_t kBytes = kBits + (kFifth ? 4 : 0);
  constexpr float kZero = kFifth ? 16.0F : 8.0F;
  const Floats d;
  const Ints di;
  const std::int64_t n = lanes();
  const I lane = lane_bits();
  for (std::int64_t k = 0; k < count; k += kShort, row += kBytes + kShort / 2) {
    const V scale = hn::Set(d, half_at(row));
    const V least = hn::Set(d, kLeast ? half_at(row + 2) : 0.0F);
    std::uint32_t fifth = 0;
    if constexpr (kFifth) std::memcpy(&fifth, row + kBits, sizeof fifth);
    const auto weights = [&](I q, std::int64_t i) HWY_ATTR {
      if constexpr (kFifth) q = hn::Or(q, where(fifth >> i, lane, hn::Set(di, 16)));
      V x = hn::ConvertTo(d, q);
      if constexpr (!kLeast) x = hn::Sub(x, hn::Set(d, kZero));
      x = hn::Mul(x, scale);
      if constexpr (kLeast) x = hn::Add(x, least);
      hn::StoreU(x, d, out + k + i);
    };
    for (std::int64_t i = 0; i < kShort / 2; i += n) {
      const I both = bytes_at(row + kBytes + i);
      weights(hn::And(both, hn::Set(di, 15)), i);
      weights(hn::ShiftRight<4>(both), i + kShort / 2);
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
HWY_INLINE I signed_at(const std::int8_t* from) {
  const hn::Rebind<std::int8_t, Ints> d;
  return hn::PromoteTo(Ints(), hn::LoadU(d, from));
}
#endif

// What 16 bytes mean whose halves stand for kUneven's numbers: first the low ones.
HWY_INLINE void uneven(const std::byte* from, float scale, float* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR  // has no vector of 16 bytes
  for (int i = 0; i < 16; ++i) {
    const int both = byte_at(from + i);
    out[i] = scale * kUneven[both & 15];
    out[i + 16] = scale * kUneven[both >> 4];
  }
#else
  const hn::CappedTag<std::uint8_t, 16> du;
  const hn::RebindToSigned<decltype(du)> ds;
  alignas(16) std::int8_t table[16];
  for (int i = 0; i < 16; ++i) table[i] = static_cast<std::int8_t>(kUneven[i]);
  const Floats d;
  alignas(16) std::int8_t q[kShort];
  const auto both = hn::LoadU(du, reinterpret_cast<const std::uint8_t*>(from));
  const auto means = hn::Load(ds, table);
  const auto low = hn::BitCast(ds, hn::And(both, hn::Set(du, 15)));
  const auto high = hn::BitCast(ds, hn::ShiftRight<4>(both));
  hn::Store(hn::TableLookupBytes(means, low), ds, q);
  hn::Store(hn::TableLookupBytes(means, high), ds, q + kShort / 2);
  const V by = hn::Set(d, scale);
  for (std::int64_t i = 0; i < kShort; i += lanes())
    hn::StoreU(hn::Mul(by, hn::ConvertTo(d, signed_at(q + i))), d, out + i);
#endif
}

HWY_INLINE void iq4_nl(const std::byte* row, std::int64_t count, float* HWY_RESTRICT out) {
  for (std::int64_t k = 0; k < count; k += kShort, row += 2 + kShort / 2)
    uneven(row + 2, half_at(row), out + k);
}

HWY_INLINE void iq4_xs(const std::byte* row, std::int64_t count, float* HWY_RESTRICT out) {
  for (std::int64_t k = 0; k < count; k += 256, row += 136) {
    const float scale = half_at(row);
    for (int part = 0; part < 8; ++part) {
      const int low = byte_at(row + 4 + part / 2) >> (part % 2 * 4) & 15;
      const int high = byte_at(row + 2 + part / 4) >> (part % 4 * 2) & 3;
      const float of_part = scale * static_cast<float>((low | high << 4) - 32);
      uneven(row + 8 + std::ptrdiff_t{16} * part, of_part, out + k + kShort * part);
    }
  }
}

// Calls part(i, at, shift) for the 16 weights from i of a block of 256 with two bits each: in the
// bits from `shift` of the bytes from `at`.
template <class Part>
HWY_INLINE void pairs_of_bits(const std::byte* pairs, const Part& part) {
  for (int i = 0; i < 256; i += 128) {
    for (int shift = 0; shift < 8; shift += 2) {
      for (int j = 0; j < 32; j += 16) part(i + 16 * shift + j, pairs + i / 4 + j, shift);
    }
  }
}

HWY_INLINE I two_bits(const std::byte* at, int shift) {
  return hn::And(hn::ShiftRightSame(bytes_at(at), shift), hn::Set(Ints(), 3));
}

HWY_INLINE void q2_k(const std::byte* row, std::int64_t count, float* HWY_RESTRICT out) {
  const Floats d;
  for (std::int64_t k = 0; k < count; k += 256, row += 84) {
    const float scale = half_at(row + 80);
    const float least = half_at(row + 82);
    pairs_of_bits(row + 16, [&](int i, const std::byte* at, int shift) HWY_ATTR {
      const int part = byte_at(row + i / 16);
      const V by = hn::Set(d, scale * static_cast<float>(part & 15));
      const V less = hn::Set(d, least * static_cast<float>(part >> 4));
      for (std::int64_t j = 0; j < 16; j += lanes()) {
        const V q = hn::ConvertTo(d, two_bits(at + j, shift));
        hn::StoreU(hn::Sub(hn::Mul(by, q), less), d, out + k + i + j);
      }
    });
  }
}

HWY_INLINE void q3_k(const std::byte* row, std::int64_t count, float* HWY_RESTRICT out) {
  const Floats d;
  const Ints di;
  for (std::int64_t k = 0; k < count; k += 256, row += 110) {
    const float scale = half_at(row + 108);
    pairs_of_bits(row + 32, [&](int i, const std::byte* at, int shift) HWY_ATTR {
      const int of_part = scale_of_q3_k(row + 96, static_cast<std::size_t>(i / 16));
      const V by = hn::Set(d, scale * static_cast<float>(of_part));
      const I bit = hn::Set(di, 1 << (i / 32));
      for (std::int64_t j = 0; j < 16; j += lanes()) {
        const auto third = hn::TestBit(bytes_at(row + i % 32 + j), bit);
        const I q = hn::Sub(two_bits(at + j, shift), hn::IfThenZeroElse(third, hn::Set(di, 4)));
        hn::StoreU(hn::Mul(by, hn::ConvertTo(d, q)), d, out + k + i + j);
      }
    });
  }
}

// Returns whether it knows the format.
bool unpack_blocks(WeightFormat format, const std::byte* row, std::int64_t count, float* out) {
  if (format == WeightFormat::q4_1) {
    halves<true, false>(row, count, out);
  } else if (format == WeightFormat::q5_0) {
    halves<false, true>(row, count, out);
  } else if (format == WeightFormat::q5_1) {
    halves<true, true>(row, count, out);
  } else if (format == WeightFormat::iq4_nl) {
    iq4_nl(row, count, out);
  } else if (format == WeightFormat::iq4_xs) {
    iq4_xs(row, count, out);
  } else if (format == WeightFormat::q2_k) {
    q2_k(row, count, out);
  } else if (format == WeightFormat::q3_k) {
    q3_k(row, count, out);
  } else {
    return false;
  }
  return true;
}

}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::exec {

HWY_EXPORT(unpack_blocks);

void unpack_blocks(model::WeightFormat format, const std::byte* row, std::int64_t count,
                   float* out) {
  if (HWY_DYNAMIC_DISPATCH(unpack_blocks)(format, row, count, out)) return;
  decode(format, {row, static_cast<std::size_t>(model::row_bytes(format, count))},
         {out, static_cast<std::size_t>(count)});
}

}  // namespace tandem::exec
#endif
