// Integer products with AVX2, of any number of tokens: a row after the other.

#include "exec/kernels/integer_product.hpp"
#include "exec/weights/k_codec.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#define TANDEM_AVX2 __attribute__((target("avx2,fma,f16c")))
#define TANDEM_AVX2_INLINE inline __attribute__((target("avx2,fma,f16c"), always_inline))

namespace tandem::exec {
namespace {

using model::WeightFormat;

TANDEM_AVX2_INLINE __m256i load_32(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

TANDEM_AVX2_INLINE __m128i total(__m256i sum) {
  __m128i all = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
  all = _mm_add_epi32(all, _mm_shuffle_epi32(all, 0x4e));
  return _mm_add_epi32(all, _mm_shuffle_epi32(all, 0xb1));
}

TANDEM_AVX2 void quantise(const float* x, std::int64_t blocks, const IntegerInputs& to) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  for (std::int64_t b = 0; b < padded_blocks(blocks); ++b) {
    __m256i packed = _mm256_setzero_si256();
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    float scale = 0.0F;
    if (b < blocks) {
      const float* const in = x + b * kInputBlock;
      __m256 v[4];
      __m256i most = _mm256_setzero_si256();
      for (std::int64_t i = 0; i < 4; ++i) {
        v[i] = _mm256_loadu_ps(in + 8 * i);
        most = _mm256_max_epu32(most, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
      }
      __m128i half = _mm_max_epu32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
      half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0x4e));
      half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0xb1));
      const float all = _mm_cvtss_f32(_mm_castsi128_ps(half));
      if (static_cast<std::uint32_t>(_mm_cvtsi128_si32(half)) >= 0x7f800000U) {
        scale = __builtin_nanf("");
      } else if (all >= 0x1p-100F) {
        scale = all / 127.0F;
        const __m256 by = _mm256_set1_ps(127.0F / all);
        __m256i q[4];
        for (int i = 0; i < 4; ++i) {
          q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], by));
          sums[i / 2] = _mm256_add_epi32(sums[i / 2], q[i]);
        }
        packed = _mm256_permutevar8x32_epi32(
            _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3])),
            _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
      }
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.q + b * kInputBlock), packed);
    to.sums[2 * b] = static_cast<std::int16_t>(_mm_cvtsi128_si32(total(sums[0])));
    to.sums[2 * b + 1] = static_cast<std::int16_t>(_mm_cvtsi128_si32(total(sums[1])));
    to.scales[b] = scale;
  }
}

// Sums of four neighbouring products, w q: |w| q with q's sign turned where w is negative.
TANDEM_AVX2_INLINE __m256i products(__m256i w, __m256i q) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_sign_epi8(w, w), _mm256_sign_epi8(q, w));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

template <WeightFormat kFormat>
TANDEM_AVX2_INLINE __m256i integers(const std::byte* block) {
  if constexpr (kFormat == WeightFormat::q8_0) return load_32(block + 2);
  const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 2));
  const __m256i wide =
      _mm256_inserti128_si256(_mm256_castsi128_si256(both), _mm_srli_epi16(both, 4), 1);
  return _mm256_sub_epi8(_mm256_and_si256(wide, _mm256_set1_epi8(15)), _mm256_set1_epi8(8));
}

TANDEM_AVX2_INLINE int half_at(const std::byte* p) {
  return std::to_integer<int>(p[0]) | (std::to_integer<int>(p[1]) << 8);
}

// The sum of each.
TANDEM_AVX2_INLINE __m128i sums_of(const __m256i (&dots)[4]) {
  const __m256i four =
      _mm256_hadd_epi32(_mm256_hadd_epi32(dots[0], dots[1]), _mm256_hadd_epi32(dots[2], dots[3]));
  return _mm_add_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
}

// Up to four blocks of a row, for one token; those that there are not have zeros.
template <WeightFormat kFormat>
TANDEM_AVX2_INLINE __m128 step(const std::byte* block, int count, const IntegerInputs& x,
                               std::int64_t b, __m128 chains) {
  constexpr std::int64_t kBytes = model::block_of(kFormat).bytes;
  __m256i dots[4];
  __m128i halves = _mm_setzero_si128();
  for (int j = 0; j < 4; ++j) {
    dots[j] = j < count ? products(integers<kFormat>(block + j * kBytes),
                                   load_32(x.q + (b + j) * kInputBlock))
                        : _mm256_setzero_si256();
  }
  halves = _mm_insert_epi16(halves, half_at(block), 0);
  if (count > 1) halves = _mm_insert_epi16(halves, half_at(block + kBytes), 1);
  if (count > 2) halves = _mm_insert_epi16(halves, half_at(block + 2 * kBytes), 2);
  if (count > 3) halves = _mm_insert_epi16(halves, half_at(block + 3 * kBytes), 3);
  const __m128i sums = sums_of(dots);
  const __m128 scales = _mm_mul_ps(_mm_cvtph_ps(halves), _mm_loadu_ps(x.scales + b));
  return _mm_fmadd_ps(_mm_cvtepi32_ps(sums), scales, chains);
}

TANDEM_AVX2_INLINE float total(__m128 chains) {
  const __m128 pairs = _mm_add_ps(chains, _mm_movehl_ps(chains, chains));
  return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_shuffle_ps(pairs, pairs, 1)));
}

// The 32 integers of part 4 n + j of a block of 256.
template <WeightFormat kFormat>
TANDEM_AVX2_INLINE __m256i part_of(const std::byte* block, int n, int j) {
  const __m256i half = _mm256_set1_epi8(15);
  if constexpr (kFormat == WeightFormat::q6_k) {
    const __m256i low =
        _mm256_srli_epi16(load_32(block + std::int64_t{32} * (2 * n + j % 2)), j / 2 * 4);
    const __m256i high = _mm256_srli_epi16(load_32(block + 128 + std::int64_t{32} * n), 2 * j);
    const __m256i top = _mm256_slli_epi16(_mm256_and_si256(high, _mm256_set1_epi8(3)), 4);
    return _mm256_sub_epi8(_mm256_or_si256(_mm256_and_si256(low, half), top), _mm256_set1_epi8(32));
  }
  constexpr std::int64_t kHalves = kFormat == WeightFormat::q5_k ? 48 : 16;
  const __m256i both = load_32(block + kHalves + std::int64_t{32} * (2 * n + j / 2));
  const __m256i low = _mm256_and_si256(_mm256_srli_epi16(both, j % 2 * 4), half);
  if constexpr (kFormat == WeightFormat::q4_k) return low;
  const __m256i fifth =
      _mm256_and_si256(_mm256_srli_epi16(load_32(block + 16), 4 * n + j), _mm256_set1_epi8(1));
  return _mm256_or_si256(low, _mm256_slli_epi16(fifth, 4));
}

// Four parts of a block of 256, from part 4 n on, which is block b of 32 of the row.
template <WeightFormat kFormat>
TANDEM_AVX2_INLINE __m128 long_step(const std::byte* block, int n, const IntegerInputs& x,
                                    std::int64_t b, __m128 chains) {
  __m256i dots[4];
  for (int j = 0; j < 4; ++j) {
    dots[j] = products(part_of<kFormat>(block, n, j), load_32(x.q + (b + j) * kInputBlock));
    if constexpr (kFormat == WeightFormat::q6_k) {
      const std::byte* const scales = block + 192 + std::int64_t{2} * (4 * n + j);
      const __m128i first = _mm_set1_epi32(static_cast<std::int8_t>(scales[0]));
      const __m128i second = _mm_set1_epi32(static_cast<std::int8_t>(scales[1]));
      dots[j] = _mm256_mullo_epi32(dots[j], _mm256_set_m128i(second, first));
    }
  }
  const __m128 sums = _mm_cvtepi32_ps(sums_of(dots));
  const __m128 in = _mm_loadu_ps(x.scales + b);
  if constexpr (kFormat == WeightFormat::q6_k) {
    const __m128 scale = _mm_cvtph_ps(_mm_set1_epi16(static_cast<short>(half_at(block + 208))));
    return _mm_fmadd_ps(sums, _mm_mul_ps(scale, in), chains);
  }
  alignas(16) std::int32_t scales[4];
  alignas(16) std::int32_t leasts[4];
  for (int j = 0; j < 4; ++j) {
    const PartScale part = part_scale(
        block + 4, std::size_t{4} * static_cast<std::size_t>(n) + static_cast<std::size_t>(j));
    scales[j] = part.scale;
    leasts[j] = part.least;
  }
  const auto of = [](const std::int32_t* integers, int half) TANDEM_AVX2 {
    return _mm_mul_ps(_mm_cvtepi32_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(integers))),
                      _mm_cvtph_ps(_mm_set1_epi16(static_cast<short>(half))));
  };
  const __m128i inputs = _mm_madd_epi16(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(x.sums + 2 * b)), _mm_set1_epi16(1));
  chains = _mm_fmadd_ps(sums, _mm_mul_ps(of(scales, half_at(block)), in), chains);
  return _mm_fnmadd_ps(_mm_cvtepi32_ps(inputs), _mm_mul_ps(of(leasts, half_at(block + 2)), in),
                       chains);
}

template <WeightFormat kFormat>
TANDEM_AVX2 void long_products_of(const IntegerProduct& p) {
  constexpr std::int64_t kBytes = model::block_of(kFormat).bytes;
  constexpr std::int64_t kAhead = 8192;
  for (std::int64_t o = 0; o < p.outputs; ++o) {
    for (std::int64_t t = 0; t < p.tokens; ++t) {
      const IntegerInputs x = p.in.token(t);
      const std::byte* block = p.w + o * p.w_stride;
      __m128 chains = _mm_setzero_ps();
      for (std::int64_t b = 0; b < p.blocks; b += 8, block += kBytes) {
        if (t == 0) {
          for (std::int64_t line = 0; line < kBytes; line += 64)
            _mm_prefetch(block + kAhead + line, _MM_HINT_T1);
        }
        chains = long_step<kFormat>(block, 0, x, b, chains);
        chains = long_step<kFormat>(block, 1, x, b + 4, chains);
      }
      p.y[t * p.y_stride + o] = total(chains);
    }
  }
}

template <WeightFormat kFormat>
TANDEM_AVX2 void products_of(const IntegerProduct& p) {
  constexpr std::int64_t kBytes = model::block_of(kFormat).bytes;
  constexpr std::int64_t kAhead = 8192;
  for (std::int64_t o = 0; o < p.outputs; ++o) {
    const std::byte* const row = p.w + o * p.w_stride;
    for (std::int64_t t = 0; t < p.tokens; ++t) {
      const IntegerInputs x = p.in.token(t);
      __m128 chains = _mm_setzero_ps();
      std::int64_t b = 0;
      for (; b + 4 <= p.blocks; b += 4) {
        const std::byte* const block = row + b * kBytes;
        if (t == 0) {
          for (std::int64_t line = 0; line < 4 * kBytes; line += 64)
            _mm_prefetch(block + kAhead + line, _MM_HINT_T1);
        }
        chains = step<kFormat>(block, 4, x, b, chains);
      }
      if (b < p.blocks)
        chains = step<kFormat>(row + b * kBytes, static_cast<int>(p.blocks - b), x, b, chains);
      p.y[t * p.y_stride + o] = total(chains);
    }
  }
}

void multiply(const IntegerProduct& p) {
  if (p.format == WeightFormat::q8_0) return products_of<WeightFormat::q8_0>(p);
  if (p.format == WeightFormat::q4_0) return products_of<WeightFormat::q4_0>(p);
  if (p.format == WeightFormat::q4_k) return long_products_of<WeightFormat::q4_k>(p);
  if (p.format == WeightFormat::q5_k) return long_products_of<WeightFormat::q5_k>(p);
  long_products_of<WeightFormat::q6_k>(p);
}

}  // namespace

const IntegerKernels* avx2_kernels() {
  static constexpr IntegerKernels kKernels{"avx2", quantise, multiply};
  // Every processor with AVX2 has F16C.
  const bool has = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return has ? &kKernels : nullptr;
}

}  // namespace tandem::exec

#else

namespace tandem::exec {
const IntegerKernels* avx2_kernels() { return nullptr; }
}  // namespace tandem::exec

#endif
