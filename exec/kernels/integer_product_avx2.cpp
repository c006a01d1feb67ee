// Integer products with AVX2, of any number of tokens: a row after the other.

#include "exec/kernels/integer_product.hpp"

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

TANDEM_AVX2 void quantise(const float* x, std::int64_t blocks, const IntegerInputs& to) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  for (std::int64_t b = 0; b < padded_blocks(blocks); ++b) {
    __m256i packed = _mm256_setzero_si256();
    __m256i sum = _mm256_setzero_si256();
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
          sum = _mm256_add_epi32(sum, q[i]);
        }
        packed = _mm256_permutevar8x32_epi32(
            _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3])),
            _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
      }
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.q + b * kInputBlock), packed);
    __m128i total = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    total = _mm_add_epi32(total, _mm_shuffle_epi32(total, 0x4e));
    total = _mm_add_epi32(total, _mm_shuffle_epi32(total, 0xb1));
    to.sums[b] = _mm_cvtsi128_si32(total);
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
  const __m256i four =
      _mm256_hadd_epi32(_mm256_hadd_epi32(dots[0], dots[1]), _mm256_hadd_epi32(dots[2], dots[3]));
  const __m128i sums =
      _mm_add_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
  const __m128 scales = _mm_mul_ps(_mm_cvtph_ps(halves), _mm_loadu_ps(x.scales + b));
  return _mm_fmadd_ps(_mm_cvtepi32_ps(sums), scales, chains);
}

TANDEM_AVX2_INLINE float total(__m128 chains) {
  const __m128 pairs = _mm_add_ps(chains, _mm_movehl_ps(chains, chains));
  return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_shuffle_ps(pairs, pairs, 1)));
}

template <WeightFormat kFormat>
TANDEM_AVX2 void products_of(const IntegerProduct& p) {
  constexpr std::int64_t kBytes = model::block_of(kFormat).bytes;
  constexpr std::int64_t kAhead = 8192;
  for (std::int64_t o = 0; o < p.outputs; ++o) {
    const std::byte* const row = p.w + o * p.w_stride;
    for (std::int64_t t = 0; t < p.tokens; ++t) {
      const IntegerInputs x = p.x.token(t);
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
  products_of<WeightFormat::q4_0>(p);
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
