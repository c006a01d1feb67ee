// Integer products with Arm's dot products (sdot, Armv8.2's option: Cortex-A75 and later), which a
// Cortex-A72 lacks: some tokens of a row at once, so that its integers are unpacked once for them.

#include "exec/kernels/integer_product.hpp"
#include "exec/weights/formats/k_codec.hpp"

// Clang 14's header has the instruction only where the whole file is compiled for it.
#if defined(__aarch64__) && defined(__linux__) && \
    (!defined(__clang__) || defined(__ARM_FEATURE_DOTPROD))

#include <arm_neon.h>
#include <sys/auxv.h>

#include <bit>
#include <cstring>
#include <limits>

#define TANDEM_SDOT __attribute__((target("arch=armv8.2-a+dotprod")))
#define TANDEM_SDOT_INLINE inline __attribute__((target("arch=armv8.2-a+dotprod"), always_inline))

namespace tandem::exec {
namespace {

using model::WeightFormat;

TANDEM_SDOT void quantise(const float* x, std::int64_t blocks, const IntegerInputs& to) {
  constexpr float kLeast = 0x1p-100F;
  for (std::int64_t b = 0; b < padded_blocks(blocks); ++b) {
    std::int8_t* const q = to.q + b * kInputBlock;
    std::memset(q, 0, static_cast<std::size_t>(kInputBlock));
    to.scales[b] = 0.0F;
    to.sums[2 * b] = 0;
    to.sums[2 * b + 1] = 0;
    if (b >= blocks) continue;
    float32x4_t v[8];
    uint32x4_t most = vdupq_n_u32(0);
    for (int i = 0; i < 8; ++i) {
      v[i] = vld1q_f32(x + b * kInputBlock + 4 * i);
      most = vmaxq_u32(most, vandq_u32(vreinterpretq_u32_f32(v[i]), vdupq_n_u32(0x7fffffff)));
    }
    const std::uint32_t bits = vmaxvq_u32(most);
    const auto magnitude = std::bit_cast<float>(bits);
    if (bits >= 0x7f800000U) {
      to.scales[b] = std::numeric_limits<float>::quiet_NaN();
    } else if (magnitude >= kLeast) {
      to.scales[b] = magnitude / 127.0F;
      const float32x4_t by = vdupq_n_f32(127.0F / magnitude);
      for (int half = 0; half < 2; ++half) {
        int16x8_t pairs[2];
        for (int i = 0; i < 2; ++i) {
          const int at = 4 * half + 2 * i;
          pairs[i] = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(vmulq_f32(v[at], by))),
                                  vmovn_s32(vcvtnq_s32_f32(vmulq_f32(v[at + 1], by))));
        }
        vst1q_s8(q + 16 * half, vcombine_s8(vmovn_s16(pairs[0]), vmovn_s16(pairs[1])));
        to.sums[2 * b + half] = vaddvq_s16(vaddq_s16(pairs[0], pairs[1]));
      }
    }
  }
}

// Four blocks of 32 of a row, a chain each.
struct Four {
  int8x16x2_t w[4];
  float32x4_t scales;
  float32x4_t leasts;    // of formats that have them
  int32x4_t factors[2];  // of q6_k: of each block's halves
};

TANDEM_SDOT_INLINE std::uint16_t half_at(const std::byte* p) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, p, sizeof bits);
  return bits;
}

TANDEM_SDOT_INLINE float32x4_t wide(const std::uint16_t* halves) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(halves)));
}

TANDEM_SDOT_INLINE float32x4_t everywhere(const std::byte* half) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half_at(half))));
}

TANDEM_SDOT_INLINE uint8x16_t bytes_at(const std::byte* p) {
  return vld1q_u8(reinterpret_cast<const std::uint8_t*>(p));
}

// Blocks [b, b + 4) of a row; those that there are not are zeros.
template <WeightFormat kFormat>
TANDEM_SDOT_INLINE Four short_four(const std::byte* row, std::int64_t b, std::int64_t blocks) {
  constexpr std::int64_t kBytes = model::block_of(kFormat).bytes;
  Four four{};
  std::uint16_t halves[4] = {};
  for (int j = 0; j < 4 && b + j < blocks; ++j) {
    const std::byte* const block = row + (b + j) * kBytes;
    halves[j] = half_at(block);
    if constexpr (kFormat == WeightFormat::q8_0) {
      four.w[j].val[0] = vreinterpretq_s8_u8(bytes_at(block + 2));
      four.w[j].val[1] = vreinterpretq_s8_u8(bytes_at(block + 18));
    } else {
      const uint8x16_t both = bytes_at(block + 2);
      const int8x16_t eight = vdupq_n_s8(8);
      four.w[j].val[0] = vsubq_s8(vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(15))), eight);
      four.w[j].val[1] = vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(both, 4)), eight);
    }
  }
  four.scales = wide(halves);
  return four;
}

// 16 integers of part `part` of a block of 256, its first or second half.
template <WeightFormat kFormat>
TANDEM_SDOT_INLINE int8x16_t part_of(const std::byte* block, int part, int half) {
  const uint8x16_t fifteen = vdupq_n_u8(15);
  // Bytes are shifted to the right by negative numbers.
  const auto shifted = [](uint8x16_t bytes, int by) TANDEM_SDOT {
    return vshlq_u8(bytes, vdupq_n_s8(static_cast<std::int8_t>(-by)));
  };
  if constexpr (kFormat == WeightFormat::q6_k) {
    const uint8x16_t low = bytes_at(block + part / 4 * 64 + part % 2 * 32 + 16 * half);
    const uint8x16_t high = bytes_at(block + 128 + part / 4 * 32 + 16 * half);
    const uint8x16_t top = vandq_u8(shifted(high, part % 4 * 2), vdupq_n_u8(3));
    const uint8x16_t all =
        vorrq_u8(vandq_u8(shifted(low, part % 4 / 2 * 4), fifteen), vshlq_n_u8(top, 4));
    return vsubq_s8(vreinterpretq_s8_u8(all), vdupq_n_s8(32));
  } else {
    constexpr int kHalves = kFormat == WeightFormat::q5_k ? 48 : 16;
    const uint8x16_t both = bytes_at(block + kHalves + part / 2 * 32 + 16 * half);
    uint8x16_t all = vandq_u8(shifted(both, part % 2 * 4), fifteen);
    if constexpr (kFormat == WeightFormat::q5_k) {
      const uint8x16_t fifth =
          vandq_u8(shifted(bytes_at(block + 16 + 16 * half), part), vdupq_n_u8(1));
      all = vorrq_u8(all, vshlq_n_u8(fifth, 4));
    }
    return vreinterpretq_s8_u8(all);
  }
}

// Four parts of a block of 256, `first` and those after it.
template <WeightFormat kFormat>
TANDEM_SDOT_INLINE Four long_four(const std::byte* block, int first) {
  Four four{};
  std::int32_t scales[4];
  std::int32_t leasts[4];
  for (int j = 0; j < 4; ++j) {
    for (int half = 0; half < 2; ++half)
      four.w[j].val[half] = part_of<kFormat>(block, first + j, half);
    if constexpr (kFormat == WeightFormat::q6_k) {
      scales[j] = static_cast<std::int8_t>(block[192 + 2 * (first + j)]);
      leasts[j] = static_cast<std::int8_t>(block[193 + 2 * (first + j)]);
    } else {
      const PartScale part = part_scale(block + 4, static_cast<std::size_t>(first + j));
      scales[j] = part.scale;
      leasts[j] = part.least;
    }
  }
  if constexpr (kFormat == WeightFormat::q6_k) {
    four.scales = everywhere(block + 208);
    four.factors[0] = vld1q_s32(scales);
    four.factors[1] = vld1q_s32(leasts);
  } else {
    four.scales = vmulq_f32(vcvtq_f32_s32(vld1q_s32(scales)), everywhere(block));
    four.leasts = vmulq_f32(vcvtq_f32_s32(vld1q_s32(leasts)), everywhere(block + 2));
  }
  return four;
}

// The four chains after blocks [b, b + 4).
template <WeightFormat kFormat>
TANDEM_SDOT_INLINE float32x4_t added(const Four& four, const IntegerInputs& x, std::int64_t b,
                                     float32x4_t chains) {
  int32x4_t dots[2][4];
  for (int j = 0; j < 4; ++j) {
    const std::int8_t* const q = x.q + (b + j) * kInputBlock;
    dots[0][j] = vdotq_s32(vdupq_n_s32(0), four.w[j].val[0], vld1q_s8(q));
    // Halves with a scale of their own are added when they are multiplied.
    dots[1][j] = vdotq_s32(kFormat == WeightFormat::q6_k ? vdupq_n_s32(0) : dots[0][j],
                           four.w[j].val[1], vld1q_s8(q + 16));
  }
  const auto sums_of = [](const int32x4_t(&of)[4]) TANDEM_SDOT {
    return vpaddq_s32(vpaddq_s32(of[0], of[1]), vpaddq_s32(of[2], of[3]));
  };
  int32x4_t sums = sums_of(dots[1]);
  if constexpr (kFormat == WeightFormat::q6_k)
    sums = vmlaq_s32(vmulq_s32(sums, four.factors[1]), sums_of(dots[0]), four.factors[0]);
  const float32x4_t in = vld1q_f32(x.scales + b);
  chains = vfmaq_f32(chains, vcvtq_f32_s32(sums), vmulq_f32(four.scales, in));
  if constexpr (has_leasts(kFormat)) {
    const float32x4_t inputs = vcvtq_f32_s32(vpaddlq_s16(vld1q_s16(x.sums + 2 * b)));
    chains = vfmsq_f32(chains, inputs, vmulq_f32(four.leasts, in));
  }
  return chains;
}

// A row for tokens [t, t + kTokens).
template <WeightFormat kFormat, int kTokens>
TANDEM_SDOT_INLINE void row_for(const IntegerProduct& p, std::int64_t o, std::int64_t t) {
  constexpr std::int64_t kBytes = model::block_of(kFormat).bytes;
  constexpr bool kLong = model::block_of(kFormat).elements > kInputBlock;
  const std::byte* const row = p.w + o * p.w_stride;
  float32x4_t chains[kTokens];
  for (float32x4_t& one : chains) one = vdupq_n_f32(0.0F);
  for (std::int64_t b = 0; b < p.blocks; b += 4) {
    Four four;
    if constexpr (kLong) {
      four = long_four<kFormat>(row + b / 8 * kBytes, static_cast<int>(b % 8));
    } else {
      four = short_four<kFormat>(row, b, p.blocks);
    }
    for (int i = 0; i < kTokens; ++i)
      chains[i] = added<kFormat>(four, p.in.token(t + i), b, chains[i]);
  }
  for (int i = 0; i < kTokens; ++i) {
    const float32x2_t pairs = vadd_f32(vget_low_f32(chains[i]), vget_high_f32(chains[i]));
    p.y[(t + i) * p.y_stride + o] = vget_lane_f32(pairs, 0) + vget_lane_f32(pairs, 1);
  }
}

template <WeightFormat kFormat>
TANDEM_SDOT void products_of(const IntegerProduct& p) {
  for (std::int64_t o = 0; o < p.outputs; ++o) {
    std::int64_t t = 0;
    for (; t + 4 <= p.tokens; t += 4) row_for<kFormat, 4>(p, o, t);
    for (; t < p.tokens; ++t) row_for<kFormat, 1>(p, o, t);
  }
}

void multiply(const IntegerProduct& p) {
  if (p.format == WeightFormat::q8_0) return products_of<WeightFormat::q8_0>(p);
  if (p.format == WeightFormat::q4_0) return products_of<WeightFormat::q4_0>(p);
  if (p.format == WeightFormat::q4_k) return products_of<WeightFormat::q4_k>(p);
  if (p.format == WeightFormat::q5_k) return products_of<WeightFormat::q5_k>(p);
  products_of<WeightFormat::q6_k>(p);
}

}  // namespace

const IntegerKernels* sdot_kernels() {
  static constexpr IntegerKernels kKernels{"sdot", quantise, multiply};
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0 ? &kKernels : nullptr;
}

}  // namespace tandem::exec

#else

namespace tandem::exec {
const IntegerKernels* sdot_kernels() { return nullptr; }
}  // namespace tandem::exec

#endif
