// Integer products with AVX-512 VNNI. Up to kFewTokens read weights as they are, four rows and four
// blocks at once; more of them read panels of 16 outputs.

#include "exec/kernels/integer_product_avx512.hpp"

#if defined(__x86_64__)

namespace tandem::exec {
namespace {

using model::WeightFormat;

// Two numbers of 16 are one block.
TANDEM_VNNI_INLINE void quantise_block(const float* x, std::int8_t* q, float* scale,
                                       std::int16_t* sums) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m512 low = _mm512_loadu_ps(x);
  const __m512 high = _mm512_loadu_ps(x + 16);
  const __m512i most = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                                        _mm512_and_si512(_mm512_castps_si512(high), magnitude));
  __m256i eight =
      _mm256_max_epu32(_mm512_castsi512_si256(most), _mm512_extracti64x4_epi64(most, 1));
  __m128i four = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1));
  const float all = _mm_cvtss_f32(_mm_castsi128_ps(four));
  if (static_cast<std::uint32_t>(_mm_cvtsi128_si32(four)) >= 0x7f800000U || all < 0x1p-100F) {
    *scale = all < 0x1p-100F ? 0.0F : __builtin_nanf("");
    sums[0] = 0;
    sums[1] = 0;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), _mm256_setzero_si256());
    return;
  }
  *scale = all / 127.0F;
  const __m512 by = _mm512_set1_ps(127.0F / all);
  const __m512i q_low = _mm512_cvtps_epi32(_mm512_mul_ps(low, by));
  const __m512i q_high = _mm512_cvtps_epi32(_mm512_mul_ps(high, by));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm512_cvtepi32_epi8(q_low));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q + 16), _mm512_cvtepi32_epi8(q_high));
  // Both sums in one: pairs of 16 bits, which they fit.
  const __m512i both = _mm512_mask_blend_epi16(0xaaaaaaaaU, q_low, _mm512_slli_epi32(q_high, 16));
  eight = _mm256_add_epi16(_mm512_castsi512_si256(both), _mm512_extracti64x4_epi64(both, 1));
  four = _mm_add_epi16(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_add_epi16(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_add_epi16(four, _mm_shuffle_epi32(four, 0xb1));
  const std::int32_t pair = _mm_cvtsi128_si32(four);
  __builtin_memcpy(sums, &pair, sizeof pair);
}

TANDEM_VNNI void quantise(const float* x, std::int64_t blocks, const IntegerInputs& to) {
  for (std::int64_t b = 0; b < blocks; ++b)
    quantise_block(x + b * kInputBlock, to.q + b * kInputBlock, to.scales + b, to.sums + 2 * b);
  for (std::int64_t b = blocks; b < padded_blocks(blocks); ++b) {
    to.scales[b] = 0.0F;
    to.sums[2 * b] = 0;
    to.sums[2 * b + 1] = 0;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.q + b * kInputBlock), _mm256_setzero_si256());
  }
}

// Four blocks of a row as unsigned integers, and inputs in the same order; the dot products of the
// blocks with them, four numbers each, one block after the other.
template <WeightFormat kFormat>
struct FourBlocks;

template <>
struct FourBlocks<WeightFormat::q8_0> {
  __m512i first, second;
  static constexpr std::int64_t kBytes = 34;
  TANDEM_VNNI_INLINE void load(const std::byte* block) {
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
    first = _mm512_xor_si512(sign, _mm512_inserti64x4(_mm512_castsi256_si512(load_32(block + 2)),
                                                      load_32(block + 2 + kBytes), 1));
    second = _mm512_xor_si512(
        sign, _mm512_inserti64x4(_mm512_castsi256_si512(load_32(block + 2 + 2 * kBytes)),
                                 load_32(block + 2 + 3 * kBytes), 1));
  }
  struct Inputs {
    __m512i first, second;
  };
  static TANDEM_VNNI_INLINE Inputs inputs(const std::int8_t* q) {
    return {_mm512_loadu_si512(q), _mm512_loadu_si512(q + 64)};
  }
  [[nodiscard]] TANDEM_VNNI_INLINE __m512i dots(const Inputs& x) const {
    const __m512i zero = _mm512_setzero_si512();
    const __m512i a = _mm512_dpbusd_epi32(zero, first, x.first);
    const __m512i b = _mm512_dpbusd_epi32(zero, second, x.second);
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
  }
};

template <>
struct FourBlocks<WeightFormat::q4_0> {
  __m512i low, high;
  static constexpr std::int64_t kBytes = 18;
  TANDEM_VNNI_INLINE void load(const std::byte* block) {
    // Two loads that overlap, of whose words those between the scales are taken.
    const __m512i words =
        _mm512_set_epi16(63, 62, 61, 60, 59, 58, 57, 56, 26, 25, 24, 23, 22, 21, 20, 19, 17, 16, 15,
                         14, 13, 12, 11, 10, 8, 7, 6, 5, 4, 3, 2, 1);
    const __m512i all =
        _mm512_permutex2var_epi16(_mm512_loadu_si512(block), words, _mm512_loadu_si512(block + 8));
    const __m512i mask = _mm512_set1_epi8(15);
    low = _mm512_and_si512(all, mask);
    high = _mm512_and_si512(_mm512_srli_epi32(all, 4), mask);
  }
  struct Inputs {
    __m512i low, high;
  };
  static TANDEM_VNNI_INLINE Inputs inputs(const std::int8_t* q) {
    const __m512i a = _mm512_loadu_si512(q);
    const __m512i b = _mm512_loadu_si512(q + 64);
    return {_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd)};
  }
  [[nodiscard]] TANDEM_VNNI_INLINE __m512i dots(const Inputs& x) const {
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), low, x.low), high,
                               x.high);
  }
};

// Places of the scales of four rows' four blocks, [4 block + row], among the 16-bit words of two
// vectors: of q4_0 those of two rows, rows 0 and 1 or 2 and 3; of q8_0 those of one row.
TANDEM_VNNI_INLINE __m512i places_of_scales(WeightFormat format) {
  if (format == WeightFormat::q4_0) {
    return _mm512_castsi256_si512(
        _mm256_setr_epi16(0, 32, 0, 32, 9, 41, 9, 41, 18, 50, 18, 50, 27, 59, 27, 59));
  }
  return _mm512_castsi256_si512(
      _mm256_setr_epi16(0, 0, 0, 0, 17, 17, 17, 17, 34, 34, 34, 34, 51, 51, 51, 51));
}

// The f16 scales of four rows' four blocks, block after block: picked out of whole vectors, as
// gathering them takes longer than the products.
template <WeightFormat kFormat>
TANDEM_VNNI_INLINE __m512 scales_of(const std::byte* const (&rows)[4]) {
  const __m512i places = places_of_scales(kFormat);
  __m512i halves;
  if constexpr (kFormat == WeightFormat::q4_0) {
    const __m512i first = _mm512_maskz_permutex2var_epi16(0x3333, _mm512_loadu_si512(rows[0]),
                                                          places, _mm512_loadu_si512(rows[1]));
    const __m512i second = _mm512_maskz_permutex2var_epi16(0xcccc, _mm512_loadu_si512(rows[2]),
                                                           places, _mm512_loadu_si512(rows[3]));
    halves = _mm512_or_si512(first, second);
  } else {
    __m512i each[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      each[r] = _mm512_maskz_permutex2var_epi16(static_cast<__mmask32>(0x1111 << r),
                                                _mm512_loadu_si512(rows[r]), places,
                                                _mm512_loadu_si512(rows[r] + 64));
    }
    halves = _mm512_or_si512(_mm512_or_si512(each[0], each[1]), _mm512_or_si512(each[2], each[3]));
  }
  return _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
}

// For a pair of sums of 16 bits.
TANDEM_VNNI_INLINE __m512i offsets_of(WeightFormat format) {
  return _mm512_set1_epi16(static_cast<short>(offset_of(format)));
}

// Four rows and T tokens: chains[t] has four chains of four rows.
template <WeightFormat kFormat, int T>
TANDEM_VNNI_INLINE void step(const std::byte* const (&rows)[4], __m512 scales,
                             const IntegerInputs& inputs, std::int64_t b, __m512 (&chains)[T]) {
  using Four = FourBlocks<kFormat>;
  const __m512i each = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  Four weights[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) weights[r].load(rows[r]);
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    const IntegerInputs x = inputs.token(t);
    const typename Four::Inputs in = Four::inputs(x.q + b * kInputBlock);
    __m512i d[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) d[r] = weights[r].dots(in);
    const __m512i sums =
        _mm512_permutexvar_epi32(each, _mm512_castsi128_si512(load_16(x.sums + 2 * b)));
    const __m512 in_scales =
        _mm512_permutexvar_ps(each, _mm512_castps128_ps512(_mm_loadu_ps(x.scales + b)));
    const __m512i exact =
        _mm512_sub_epi32(sums_of_rows(d), _mm512_madd_epi16(sums, offsets_of(kFormat)));
    chains[t] =
        _mm512_fmadd_ps(_mm512_cvtepi32_ps(exact), _mm512_mul_ps(scales, in_scales), chains[t]);
  }
}

template <WeightFormat kFormat, int T>
TANDEM_VNNI_INLINE void four_rows(const IntegerProduct& p, const FourRows& of) {
  constexpr std::int64_t kBytes = FourBlocks<kFormat>::kBytes;
  const std::byte* rows[4];
  for (int r = 0; r < 4; ++r) rows[r] = p.w + of.row(r) * p.w_stride;
  __m512 chains[T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) chains[t] = _mm512_setzero_ps();
  std::int64_t b = 0;
  for (; b + 4 <= p.blocks; b += 4) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) prefetch_ahead<4 * kBytes>(rows[r]);
    const __m512 scales = scales_of<kFormat>(rows);
    step<kFormat, T>(rows, scales, p.in, b, chains);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) rows[r] += 4 * kBytes;
  }
  if (b < p.blocks) {
    // What is left of each row, and zeros: nothing is read beyond the last block.
    alignas(64) std::byte rest[4][4 * kBytes];
    const std::byte* at[4];
    const auto left = (p.blocks - b) * kBytes;
    for (int r = 0; r < 4; ++r) {
      __builtin_memset(rest[r], 0, sizeof rest[r]);
      __builtin_memcpy(rest[r], rows[r], static_cast<std::size_t>(left));
      at[r] = rest[r];
    }
    const __m512 scales = scales_of<kFormat>(at);
    step<kFormat, T>(at, scales, p.in, b, chains);
  }
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) of.store(sum_of_chains(chains[t]), p.y + t * p.y_stride);
}

template <WeightFormat kFormat, int T>
TANDEM_VNNI void few(const IntegerProduct& p) {
  for_four_rows(p.outputs, [&](const FourRows& of) TANDEM_VNNI { four_rows<kFormat, T>(p, of); });
}

template <WeightFormat kFormat>
void few_of(const IntegerProduct& p) {
  for_few_tokens(p, [&]<int T>() { few<kFormat, T>(p); });
}

// A block of each of two rows, as the format has its integers.
template <WeightFormat kFormat>
TANDEM_VNNI_INLINE __m512i pair(const std::byte* a, const std::byte* b, bool as_signed) {
  if constexpr (kFormat == WeightFormat::q8_0) {
    const __m512i q = _mm512_inserti64x4(_mm512_castsi256_si512(load_32(a + 2)), load_32(b + 2), 1);
    return as_signed ? q : _mm512_xor_si512(q, _mm512_set1_epi8(static_cast<char>(0x80)));
  } else {
    const __m512i both =
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_broadcastsi128_si256(load_16(a + 2))),
                           _mm256_broadcastsi128_si256(load_16(b + 2)), 1);
    const __m512i shift = _mm512_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4, 0, 0, 0, 0, 4, 4, 4, 4);
    const __m512i q = _mm512_and_si512(_mm512_srlv_epi32(both, shift), _mm512_set1_epi8(15));
    return as_signed ? _mm512_sub_epi8(q, _mm512_set1_epi8(8)) : q;
  }
}

template <WeightFormat kFormat>
TANDEM_VNNI void pack(const IntegerProduct& p, bool as_signed, const WeightPanel& to) {
  constexpr std::int64_t kBytes = model::block_of(kFormat).bytes;
  const std::byte* rows[16];
  alignas(64) std::int32_t places[16];
  for (int r = 0; r < 16; ++r) {
    const std::int64_t row = r < p.outputs ? r : p.outputs - 1;
    rows[r] = p.w + row * p.w_stride;
    places[r] = static_cast<std::int32_t>(row * p.w_stride);
  }
  const __m512i offsets = _mm512_load_si512(places);
  for (std::int64_t b = 0; b < p.blocks; ++b) {
    __m512i pairs[8];
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < 8; ++i) {
      const std::int64_t first = i / 4 * 8 + i % 4;
      pairs[i] = pair<kFormat>(rows[first] + b * kBytes, rows[first + 4] + b * kBytes, as_signed);
      _mm_prefetch(rows[first] + b * kBytes + 16 * p.w_stride, _MM_HINT_T1);
      _mm_prefetch(rows[first + 4] + b * kBytes + 16 * p.w_stride, _MM_HINT_T1);
    }
    store_panel_block(pairs, to.q + b * WeightPanel::kBlockBytes);
    const __m512i words = _mm512_i32gather_epi32(offsets, p.w + b * kBytes, 1);
    _mm512_store_ps(to.scales + 16 * b, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)));
  }
}

// Where quads of four numbers of a block begin to count for another integer scale.
template <WeightFormat kFormat>
inline constexpr int kQuadsOfScale = kFormat == WeightFormat::q6_k ? 4 : 8;

// The dot products of a block's quads [first, first + kQuadsOfScale) with T tokens, without offset.
template <WeightFormat kFormat, int T>
TANDEM_VNNI_INLINE void panel_dots(const std::byte* q, const IntegerInputs& x, std::int64_t b,
                                   int first, __m512i (&dots)[T]) {
  constexpr std::int32_t kOffset = offset_of(kFormat);
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    const IntegerInputs in = x.token(t);
    if constexpr (kOffset == 0) {
      dots[t] = _mm512_setzero_si512();
    } else {
      const std::int32_t sum =
          kQuadsOfScale<kFormat> == 8 ? in.sum(b) : std::int32_t{in.sums[2 * b + first / 4]};
      dots[t] = _mm512_set1_epi32(-kOffset * sum);
    }
  }
#pragma GCC unroll 8
  for (int i = first; i < first + kQuadsOfScale<kFormat>; ++i) {
    const __m512i four = _mm512_load_si512(q + std::int64_t{64} * i);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      std::int32_t in = 0;
      __builtin_memcpy(&in, x.q + (t * x.stride + b) * kInputBlock + std::int64_t{4} * i, 4);
      dots[t] = _mm512_dpbusd_epi32(dots[t], four, _mm512_set1_epi32(in));
    }
  }
}

// T tokens and a panel. Chain after chain, so that its sums stay in registers.
template <WeightFormat kFormat, int T>
TANDEM_VNNI_INLINE void panel_tokens(const WeightPanel& w, const IntegerInputs& x,
                                     std::int64_t blocks, __mmask16 outputs, float* y,
                                     std::int64_t y_stride) {
  __m512 sums[kChains][T];
#pragma GCC unroll 4
  for (std::int64_t chain = 0; chain < kChains; ++chain) {
    __m512 acc[T];
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) acc[t] = _mm512_setzero_ps();
    for (std::int64_t b = chain; b < blocks; b += kChains) {
      const std::byte* const q = w.q + b * WeightPanel::kBlockBytes;
      const __m512 scales = _mm512_load_ps(w.scales + 16 * b);
      __m512i dots[T];
      panel_dots<kFormat, T>(q, x, b, 0, dots);
      if constexpr (kFormat == WeightFormat::q6_k) {
        __m512i more[T];
        panel_dots<kFormat, T>(q, x, b, 4, more);
        const __m512i first = _mm512_load_si512(w.parts + 32 * b);
        const __m512i second = _mm512_load_si512(w.parts + 32 * b + 16);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
          dots[t] = _mm512_add_epi32(_mm512_mullo_epi32(dots[t], first),
                                     _mm512_mullo_epi32(more[t], second));
        }
      }
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t)
        add_panel_block<has_leasts(kFormat)>(w, scales, x.token(t), b, dots[t], acc[t]);
    }
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) sums[chain][t] = acc[t];
  }
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    _mm512_mask_storeu_ps(y + t * y_stride, outputs,
                          _mm512_add_ps(_mm512_add_ps(sums[0][t], sums[2][t]),
                                        _mm512_add_ps(sums[1][t], sums[3][t])));
  }
}

template <WeightFormat kFormat>
TANDEM_VNNI void panel_product(const IntegerProduct& p, const WeightPanel& w) {
  const auto outputs = static_cast<__mmask16>((1U << p.outputs) - 1U);
  std::int64_t t = 0;
  const auto pass = [&]<int T>() TANDEM_VNNI {
    for (; t + T <= p.tokens; t += T)
      panel_tokens<kFormat, T>(w, p.in.token(t), p.blocks, outputs, p.y + t * p.y_stride,
                               p.y_stride);
  };
  pass.template operator()<8>();
  pass.template operator()<4>();
  pass.template operator()<1>();
}

}  // namespace

void pack_panel(const IntegerProduct& p, bool as_signed, const WeightPanel& to) {
  if (p.format == WeightFormat::q8_0) return pack<WeightFormat::q8_0>(p, as_signed, to);
  if (p.format == WeightFormat::q4_0) return pack<WeightFormat::q4_0>(p, as_signed, to);
  pack_long_panel(p, as_signed, to);
}

namespace {

void few_at_a_time(const IntegerProduct& p) {
  for (std::int64_t t = 0; t < p.tokens; t += kFewTokens) {
    const std::int64_t end = t + kFewTokens;
    const IntegerProduct some = p.some(t, end < p.tokens ? end : p.tokens);
    if (p.format == WeightFormat::q8_0) {
      few_of<WeightFormat::q8_0>(some);
    } else if (p.format == WeightFormat::q4_0) {
      few_of<WeightFormat::q4_0>(some);
    } else {
      few_of_long(some);
    }
  }
}

void multiply(const IntegerProduct& p) {
  if (p.tokens <= kFewTokens || p.blocks > kMostPanelBlocks) return few_at_a_time(p);
  const WeightPanel panel = WeightPanel::at(kernel_scratch().panel, p.blocks);
  for (std::int64_t o = 0; o < p.outputs; o += WeightPanel::kOutputs) {
    const std::int64_t end = o + WeightPanel::kOutputs;
    const IntegerProduct some = p.slice(o, end < p.outputs ? end : p.outputs);
    pack_panel(some, false, panel);
    with_format(p.format, [&]<WeightFormat F>() { panel_product<F>(some, panel); });
  }
}

}  // namespace

const IntegerKernels* vnni_kernels() {
  static constexpr IntegerKernels kKernels{"avx512-vnni", quantise, multiply};
  const bool has =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
      __builtin_cpu_supports("avx512vnni") != 0;
  return has ? &kKernels : nullptr;
}

}  // namespace tandem::exec

#else

namespace tandem::exec {
const IntegerKernels* vnni_kernels() { return nullptr; }
}  // namespace tandem::exec

#endif
