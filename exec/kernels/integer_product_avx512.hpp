#pragma once

// What the AVX-512 integer products share; included by their .cpp files only.

#include "exec/kernels/integer_product.hpp"
#include "exec/kernels/scratch.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#define TANDEM_VNNI_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma"
#define TANDEM_VNNI __attribute__((target(TANDEM_VNNI_TARGET)))
#define TANDEM_VNNI_INLINE inline __attribute__((target(TANDEM_VNNI_TARGET), always_inline))

namespace tandem::exec {

TANDEM_VNNI_INLINE __m128i load_16(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
TANDEM_VNNI_INLINE __m256i load_32(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

// Rows of a product that are walked side by side: `count` of four, `apart` from each other; where
// there are fewer, the last once more.
struct FourRows {
  std::int64_t first;
  std::int64_t apart;
  int count;

  [[nodiscard]] std::int64_t row(int r) const {
    return first + apart * (r < count ? r : count - 1);
  }
  TANDEM_VNNI_INLINE void store(__m128 sums, float* y) const {
    alignas(16) float each[4];
    _mm_store_ps(each, sums);
    for (int r = 0; r < count; ++r) y[first + apart * r] = each[r];
  }
};

// Calls body(rows) for all outputs. Each of the four goes through a quarter of them: long streams
// in the order of memory, which processors fetch ahead.
template <class Body>
TANDEM_VNNI_INLINE void for_four_rows(std::int64_t outputs, const Body& body) {
  const std::int64_t quarter = outputs / 4;
  for (std::int64_t o = 0; o < quarter; ++o) body(FourRows{o, quarter, 4});
  if (outputs > 4 * quarter)
    body(FourRows{4 * quarter, 1, static_cast<int>(outputs - 4 * quarter)});
}

// The lines that a stream reads a while after `at`, which goes on by kStep bytes. Into the first
// cache: from the second a step of a few dozen cycles would wait for them.
template <std::int64_t kStep>
TANDEM_VNNI_INLINE void prefetch_ahead(const std::byte* at) {
  constexpr std::int64_t kAhead = 256;
#pragma GCC unroll 4
  for (std::int64_t line = 0; line < kStep; line += 64)
    _mm_prefetch(at + kAhead + line, _MM_HINT_T0);
}

// Calls body<T>() with the product's number of tokens, at most kFewTokens.
template <class Body>
void for_few_tokens(const IntegerProduct& p, const Body& body) {
  if (p.tokens == 1) return body.template operator()<1>();
  if (p.tokens == 2) return body.template operator()<2>();
  if (p.tokens == 3) return body.template operator()<3>();
  body.template operator()<4>();
}

// Of four vectors the sums over each 128 bits: [4 j + r], vector r's j-th.
TANDEM_VNNI_INLINE __m512i sums_of_rows(const __m512i (&d)[4]) {
  const __m512i d01 =
      _mm512_add_epi32(_mm512_unpacklo_epi32(d[0], d[1]), _mm512_unpackhi_epi32(d[0], d[1]));
  const __m512i d23 =
      _mm512_add_epi32(_mm512_unpacklo_epi32(d[2], d[3]), _mm512_unpackhi_epi32(d[2], d[3]));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(d01, d23), _mm512_unpackhi_epi64(d01, d23));
}

// What is added to a format's integers where instructions want them unsigned.
constexpr std::int32_t offset_of(model::WeightFormat format) {
  if (has_leasts(format)) return 0;
  if (format == model::WeightFormat::q6_k) return 32;
  return format == model::WeightFormat::q8_0 ? 128 : 8;
}

// Four chains of four rows, [4 chain + row], in the order of addition.
TANDEM_VNNI_INLINE __m128 sum_of_chains(__m512 chains) {
  const __m256 pairs =
      _mm256_add_ps(_mm512_castps512_ps256(chains), _mm512_extractf32x8_ps(chains, 1));
  return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

// Up to kFewTokens tokens of a format of 256 weights a block.
void few_of_long(const IntegerProduct& p);

// Weights of 16 outputs as integer products of many tokens read them: for each block and each four
// neighbouring numbers of it (32 / 4 of them) 16 times these four, one output after the other, and
// for each block 16 scales; of formats that have them 16 least numbers a block, or 16 integer
// scales of a block's first half and 16 of the other.
struct WeightPanel {
  static constexpr std::int64_t kOutputs = 16;
  static constexpr std::int64_t kBlockBytes = kOutputs * kInputBlock;
  std::byte* q = nullptr;
  float* scales = nullptr;
  float* leasts = nullptr;
  std::int32_t* parts = nullptr;

  [[nodiscard]] static constexpr std::int64_t bytes(std::int64_t blocks) {
    return blocks * (kBlockBytes + kOutputs * 12);
  }
  [[nodiscard]] static WeightPanel at(std::byte* memory, std::int64_t blocks) {
    std::byte* const scales = memory + blocks * kBlockBytes;
    std::byte* const others = scales + blocks * kOutputs * 4;
    return {.q = memory,
            .scales = reinterpret_cast<float*>(scales),
            .leasts = reinterpret_cast<float*>(others),
            .parts = reinterpret_cast<std::int32_t*>(others)};
  }
};

// The longest rows that are packed into panels: 32,768 numbers.
inline constexpr std::int64_t kMostPanelBlocks = 1024;
static_assert(WeightPanel::bytes(kMostPanelBlocks) <=
              static_cast<std::int64_t>(KernelScratch::kPanelBytes));

// Calls body<format>() with the one that is asked for.
template <class Body>
void with_format(model::WeightFormat format, const Body& body) {
  if (format == model::WeightFormat::q8_0)
    return body.template operator()<model::WeightFormat::q8_0>();
  if (format == model::WeightFormat::q4_0)
    return body.template operator()<model::WeightFormat::q4_0>();
  if (format == model::WeightFormat::q4_k)
    return body.template operator()<model::WeightFormat::q4_k>();
  if (format == model::WeightFormat::q5_k)
    return body.template operator()<model::WeightFormat::q5_k>();
  body.template operator()<model::WeightFormat::q6_k>();
}

// Packs up to 16 outputs of `p` from its first; those that there are not are copies of the last.
// Integers have what makes them unsigned added (`offset_of`) unless `as_signed`.
void pack_panel(const IntegerProduct& p, bool as_signed, const WeightPanel& to);
void pack_long_panel(const IntegerProduct& p, bool as_signed, const WeightPanel& to);

// A block of a panel from `pairs`: i of two rows' 32 numbers each, i / 4 * 8 + i % 4 and four
// after it.
TANDEM_VNNI_INLINE void store_panel_block(const __m512i (&pairs)[8], std::byte* out) {
  __m512i four[2][4];  // of rows 0 to 7, and 8 to 15: numbers i and i + 16 of four rows, twice
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m512i* const z = pairs + std::int64_t{4} * half;
    const __m512i low01 = _mm512_unpacklo_epi32(z[0], z[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(z[2], z[3]);
    const __m512i high01 = _mm512_unpackhi_epi32(z[0], z[1]);
    const __m512i high23 = _mm512_unpackhi_epi32(z[2], z[3]);
    four[half][0] = _mm512_unpacklo_epi64(low01, low23);
    four[half][1] = _mm512_unpackhi_epi64(low01, low23);
    four[half][2] = _mm512_unpacklo_epi64(high01, high23);
    four[half][3] = _mm512_unpackhi_epi64(high01, high23);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm512_store_si512(out + std::int64_t{64} * i,
                       _mm512_shuffle_i32x4(four[0][i], four[1][i], 0x88));
    _mm512_store_si512(out + std::int64_t{64} * (i + 4),
                       _mm512_shuffle_i32x4(four[0][i], four[1][i], 0xdd));
  }
}

// Adds a panel's block to a chain of a token, whose sums `dots` are.
template <bool kLeasts>
TANDEM_VNNI_INLINE void add_panel_block(const WeightPanel& w, __m512 scales, const IntegerInputs& x,
                                        std::int64_t b, __m512i dots, __m512& chain) {
  const __m512 in = _mm512_set1_ps(x.scales[b]);
  chain = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), _mm512_mul_ps(scales, in), chain);
  if constexpr (kLeasts) {
    const __m512 sum = _mm512_set1_ps(static_cast<float>(x.sum(b)));
    chain = _mm512_fnmadd_ps(sum, _mm512_mul_ps(_mm512_load_ps(w.leasts + 16 * b), in), chain);
  }
}

}  // namespace tandem::exec

#endif
