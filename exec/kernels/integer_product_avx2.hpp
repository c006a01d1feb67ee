#pragma once

// What the AVX2 integer products share; included by their .cpp files only.

#include <cstring>

#include "exec/kernels/integer_product.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#define TANDEM_AVX2 __attribute__((target("avx2,fma,f16c")))
#define TANDEM_AVX2_INLINE inline __attribute__((target("avx2,fma,f16c"), always_inline))

namespace tandem::exec {

TANDEM_AVX2_INLINE __m256i load_32(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

TANDEM_AVX2_INLINE int half_at(const std::byte* p) {
  return std::to_integer<int>(p[0]) | (std::to_integer<int>(p[1]) << 8);
}

// The 32 integers of part 4 n + j of a block of 256; of q6_k without the 32 that is taken from
// each.
template <model::WeightFormat kFormat>
TANDEM_AVX2_INLINE __m256i stored_part(const std::byte* block, int n, int j) {
  using model::WeightFormat;
  const __m256i half = _mm256_set1_epi8(15);
  if constexpr (kFormat == WeightFormat::q6_k) {
    const __m256i low =
        _mm256_srli_epi16(load_32(block + std::int64_t{32} * (2 * n + j % 2)), j / 2 * 4);
    const __m256i high = _mm256_srli_epi16(load_32(block + 128 + std::int64_t{32} * n), 2 * j);
    const __m256i top = _mm256_slli_epi16(_mm256_and_si256(high, _mm256_set1_epi8(3)), 4);
    return _mm256_or_si256(_mm256_and_si256(low, half), top);
  }
  constexpr std::int64_t kHalves = kFormat == WeightFormat::q5_k ? 48 : 16;
  const __m256i both = load_32(block + kHalves + std::int64_t{32} * (2 * n + j / 2));
  const __m256i low = _mm256_and_si256(_mm256_srli_epi16(both, j % 2 * 4), half);
  if constexpr (kFormat == WeightFormat::q4_k) return low;
  const __m256i fifth =
      _mm256_and_si256(_mm256_srli_epi16(load_32(block + 16), 4 * n + j), _mm256_set1_epi8(1));
  return _mm256_or_si256(low, _mm256_slli_epi16(fifth, 4));
}

// Six bits each, a byte after the other: the scales and least numbers of the eight parts of a block
// of q4_k or q5_k; k_codec's part_scale, of all at once.
struct PartScales {
  std::uint64_t scales;
  std::uint64_t leasts;
};
inline PartScales part_scales(const std::byte* block) {
  std::uint32_t words[3];
  std::memcpy(words, block + 4, sizeof words);
  constexpr std::uint32_t kSix = 0x3f3f3f3fU;
  constexpr std::uint32_t kFour = 0x0f0f0f0fU;
  constexpr std::uint32_t kTop = 0x30303030U;
  const std::uint64_t high_scales = (words[2] & kFour) | (words[0] >> 2 & kTop);
  const std::uint64_t high_leasts = (words[2] >> 4 & kFour) | (words[1] >> 2 & kTop);
  return {(words[0] & kSix) | high_scales << 32, (words[1] & kSix) | high_leasts << 32};
}

// From how many tokens on `many_tokens` is the faster way (docs/decisions/0035-block-formats.md).
constexpr std::int64_t least_tokens_of_many(model::WeightFormat format) {
  return format == model::WeightFormat::q8_0 || format == model::WeightFormat::q6_k ? 7 : 5;
}

// The longest rows that `many_tokens` takes, in blocks.
[[nodiscard]] std::int64_t most_blocks_of_many_tokens(model::WeightFormat format);

// Vectors of AVX2, and of AVX-VNNI, for integer_product_many-inl.hpp.
struct Avx2Lanes {
  static constexpr std::int64_t kTokens = 8;
  static constexpr std::int64_t kRows = 6;  // 12 sums of 16 registers
  using Integers = __m256i;
  using Floats = __m256;

  static TANDEM_AVX2_INLINE Integers integers(const void* from) {
    return _mm256_load_si256(static_cast<const __m256i*>(from));
  }
  static TANDEM_AVX2_INLINE Integers set(std::int32_t all) { return _mm256_set1_epi32(all); }
  static TANDEM_AVX2_INLINE Floats load(const float* from) { return _mm256_load_ps(from); }
  static TANDEM_AVX2_INLINE void store(float* to, Floats v) { _mm256_store_ps(to, v); }
  static TANDEM_AVX2_INLINE Floats set(float all) { return _mm256_set1_ps(all); }
  static TANDEM_AVX2_INLINE Floats floats(Integers v) { return _mm256_cvtepi32_ps(v); }
  static TANDEM_AVX2_INLINE Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static TANDEM_AVX2_INLINE Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static TANDEM_AVX2_INLINE Floats fmadd(Floats a, Floats b, Floats c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  static TANDEM_AVX2_INLINE Floats fnmadd(Floats a, Floats b, Floats c) {
    return _mm256_fnmadd_ps(a, b, c);
  }
};

// A product of at least a few tokens; to the bits of any other way.
void many_tokens(const IntegerProduct& p);

}  // namespace tandem::exec

#endif
