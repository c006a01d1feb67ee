// Integer products with AVX2: of few tokens a row after the other.

#include "exec/kernels/integer_product_avx2.hpp"

#include <algorithm>

#if defined(__x86_64__)

namespace tandem::exec {
namespace {

using model::WeightFormat;

// Tokens that read weights as they are, at a time.
constexpr std::int64_t kFewTokens = 4;

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

// The sum of each.
TANDEM_AVX2_INLINE __m128i sums_of(const __m256i (&dots)[4]) {
  const __m256i four =
      _mm256_hadd_epi32(_mm256_hadd_epi32(dots[0], dots[1]), _mm256_hadd_epi32(dots[2], dots[3]));
  return _mm_add_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
}

// Neighbours are added up, and made 16 bits again, which they fit.
TANDEM_AVX2_INLINE __m256i added_neighbours(__m256i a, __m256i b) {
  return _mm256_madd_epi16(_mm256_packs_epi32(a, b), _mm256_set1_epi16(1));
}

// The sum of each, of integers of at most five bits: four products are in each of `dots`, and eight
// fit 16 bits, 31 * 127 * 8 = 31496.
TANDEM_AVX2_INLINE __m128i small_sums_of(const __m256i (&dots)[4]) {
  const __m256i two = added_neighbours(dots[0], dots[1]);
  const __m256i four = added_neighbours(two, added_neighbours(dots[2], dots[3]));
  return _mm_add_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
}

TANDEM_AVX2_INLINE __m128i load_16(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
TANDEM_AVX2_INLINE __m256i two_of(const void* low, const void* high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load_16(low)), load_16(high), 1);
}

// Four blocks of a row and their scales. Integers are as stored where that is unsigned: what is
// taken from each is taken from their sums.
template <WeightFormat kFormat>
struct FourBlocks;

// The scales of four blocks that have a half each, of those that there are.
template <WeightFormat kFormat>
TANDEM_AVX2_INLINE __m128 scales_of(const std::byte* block, int count) {
  constexpr std::int64_t kBytes = model::block_of(kFormat).bytes;
  std::uint64_t halves = 0;
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    if (j < count) halves |= static_cast<std::uint64_t>(half_at(block + j * kBytes)) << (16 * j);
  }
  return _mm_cvtph_ps(_mm_cvtsi64_si128(static_cast<long long>(halves)));
}

template <>
struct FourBlocks<WeightFormat::q8_0> {
  __m256i w[4];
  __m256i sizes[4];  // |w|
  __m128 scales;

  // `count` blocks from `block` on; others are zeros.
  TANDEM_AVX2_INLINE void load(const std::byte* block, int count) {
    scales = scales_of<WeightFormat::q8_0>(block, count);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      w[j] = j < count ? load_32(block + 2 + std::int64_t{34} * j) : _mm256_setzero_si256();
      sizes[j] = _mm256_sign_epi8(w[j], w[j]);
    }
  }
  // The chains after these blocks and inputs from block b on.
  [[nodiscard]] TANDEM_AVX2_INLINE __m128 added(const IntegerInputs& x, std::int64_t b,
                                                __m128 chains) const {
    __m256i dots[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m256i q = load_32(x.q + (b + j) * kInputBlock);
      const __m256i pairs = _mm256_maddubs_epi16(sizes[j], _mm256_sign_epi8(q, w[j]));
      dots[j] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    }
    return _mm_fmadd_ps(_mm_cvtepi32_ps(sums_of(dots)),
                        _mm_mul_ps(scales, _mm_loadu_ps(x.scales + b)), chains);
  }
};

// Blocks 0 and 1, and 2 and 3, are halves of a vector each.
template <>
struct FourBlocks<WeightFormat::q4_0> {
  __m256i low[2], high[2];
  __m128 scales;

  TANDEM_AVX2_INLINE void load(const std::byte* block, int count) {
    constexpr std::int64_t kBytes = 18;
    const __m256i mask = _mm256_set1_epi8(15);
    scales = scales_of<WeightFormat::q4_0>(block, count);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const std::byte* const first = block + 2 + 2 * i * kBytes;
      __m256i both = _mm256_setzero_si256();
      if (2 * i + 1 < count) {
        both = two_of(first, first + kBytes);
      } else if (2 * i < count) {
        both = _mm256_zextsi128_si256(load_16(first));
      }
      low[i] = _mm256_and_si256(both, mask);
      high[i] = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
    }
  }
  [[nodiscard]] TANDEM_AVX2_INLINE __m128 added(const IntegerInputs& x, std::int64_t b,
                                                __m128 chains) const {
    __m256i dots[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const std::int8_t* const q = x.q + (b + 2 * i) * kInputBlock;
      const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(low[i], two_of(q, q + 32)),
                                             _mm256_maddubs_epi16(high[i], two_of(q + 16, q + 48)));
      dots[i] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    }
    // Of |w| <= 15 sums of 16 fit 16 bits: 15 * 127 * 16 = 30480.
    const __m256i both = added_neighbours(dots[0], dots[1]);  // blocks 0 and 2, and 1 and 3
    const __m256i four = added_neighbours(both, both);
    const __m128i sums =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    const __m128i taken = _mm_madd_epi16(load_16(x.sums + 2 * b), _mm_set1_epi16(8));
    return _mm_fmadd_ps(_mm_cvtepi32_ps(_mm_sub_epi32(sums, taken)),
                        _mm_mul_ps(scales, _mm_loadu_ps(x.scales + b)), chains);
  }
};

// Of formats of 256 weights a block: parts of it.
template <WeightFormat kFormat>
struct FourBlocks {
  __m256i w[4];
  __m256i factors[4];  // of q6_k: integer scales of a part's two halves
  __m128i pairs;       // the same, two a part
  __m128 scales;
  __m128 leasts;

  // Parts [4 n, 4 n + 4) of a block of 256.
  TANDEM_AVX2_INLINE void load_parts(const std::byte* block, int n) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) w[j] = stored_part<kFormat>(block, n, j);
    if constexpr (kFormat == WeightFormat::q6_k) {
      scales = _mm_cvtph_ps(_mm_set1_epi16(static_cast<short>(half_at(block + 208))));
      pairs = _mm_cvtepi8_epi16(
          _mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + 192 + std::int64_t{8} * n)));
      const __m256i both = _mm256_broadcastsi128_si256(pairs);
      const __m256i first = _mm256_set_m128i(_mm_set1_epi16(0x0302), _mm_set1_epi16(0x0100));
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const auto at = static_cast<char>(4 * j);
        factors[j] = _mm256_shuffle_epi8(both, _mm256_add_epi8(first, _mm256_set1_epi8(at)));
      }
    } else {
      const PartScales of = part_scales(block);
      const int shift = 32 * n;
      scales = times(of.scales >> shift, half_at(block));
      leasts = times(of.leasts >> shift, half_at(block + 2));
    }
  }

  [[nodiscard]] TANDEM_AVX2_INLINE __m128 added(const IntegerInputs& x, std::int64_t b,
                                                __m128 chains) const {
    __m256i dots[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      dots[j] =
          _mm256_madd_epi16(_mm256_maddubs_epi16(w[j], load_32(x.q + (b + j) * kInputBlock)),
                            kFormat == WeightFormat::q6_k ? factors[j] : _mm256_set1_epi16(1));
    }
    const __m128i in_sums = load_16(x.sums + 2 * b);
    const __m128 in = _mm_loadu_ps(x.scales + b);
    if constexpr (kFormat == WeightFormat::q6_k) {
      const __m128i taken = _mm_slli_epi32(_mm_madd_epi16(in_sums, pairs), 5);
      return _mm_fmadd_ps(_mm_cvtepi32_ps(_mm_sub_epi32(sums_of(dots), taken)),
                          _mm_mul_ps(scales, in), chains);
    }
    chains = _mm_fmadd_ps(_mm_cvtepi32_ps(small_sums_of(dots)), _mm_mul_ps(scales, in), chains);
    const __m128i inputs = _mm_madd_epi16(in_sums, _mm_set1_epi16(1));
    return _mm_fnmadd_ps(_mm_cvtepi32_ps(inputs), _mm_mul_ps(leasts, in), chains);
  }

 private:
  // The first four bytes, times the half.
  static TANDEM_AVX2_INLINE __m128 times(std::uint64_t integers, int half) {
    const __m128i wide = _mm_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(integers)));
    return _mm_mul_ps(_mm_cvtepi32_ps(wide),
                      _mm_cvtph_ps(_mm_set1_epi16(static_cast<short>(half))));
  }
};

TANDEM_AVX2_INLINE float total(__m128 chains) {
  const __m128 pairs = _mm_add_ps(chains, _mm_movehl_ps(chains, chains));
  return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_shuffle_ps(pairs, pairs, 1)));
}

// One row after the other, which T tokens read.
template <WeightFormat kFormat, int T>
TANDEM_AVX2 void few_of(const IntegerProduct& p) {
  using Four = FourBlocks<kFormat>;
  constexpr bool kLong = model::block_of(kFormat).elements > kInputBlock;
  constexpr std::int64_t kBytes = model::block_of(kFormat).bytes * (kLong ? 1 : 8);
  constexpr std::int64_t kAhead = 8192;
  for (std::int64_t o = 0; o < p.outputs; ++o) {
    const std::byte* at = p.w + o * p.w_stride;
    __m128 chains[T];
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) chains[t] = _mm_setzero_ps();
    const auto add = [&](const Four& four, std::int64_t b) TANDEM_AVX2 {
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) chains[t] = four.added(p.in.token(t), b, chains[t]);
    };
    std::int64_t b = 0;
    for (; b + 8 <= p.blocks; b += 8, at += kBytes) {
      for (std::int64_t line = 0; line < kBytes; line += 64)
        _mm_prefetch(at + kAhead + line, _MM_HINT_T1);
#pragma GCC unroll 2
      for (int n = 0; n < 2; ++n) {
        Four four;
        if constexpr (kLong) {
          four.load_parts(at, n);
        } else {
          four.load(at + n * (kBytes / 2), 4);
        }
        add(four, b + 4 * n);
      }
    }
    if constexpr (!kLong) {
      for (; b < p.blocks; b += 4, at += kBytes / 2) {
        Four four;
        four.load(at, static_cast<int>(std::min<std::int64_t>(p.blocks - b, 4)));
        add(four, b);
      }
    }
    for (int t = 0; t < T; ++t) p.y[t * p.y_stride + o] = total(chains[t]);
  }
}

template <WeightFormat kFormat>
void few_at_a_time(const IntegerProduct& p) {
  for (std::int64_t t = 0; t < p.tokens; t += kFewTokens) {
    const std::int64_t end = std::min(t + kFewTokens, p.tokens);
    const IntegerProduct some = p.some(t, end);
    if (some.tokens == 1) {
      few_of<kFormat, 1>(some);
    } else if (some.tokens == 2) {
      few_of<kFormat, 2>(some);
    } else if (some.tokens == 3) {
      few_of<kFormat, 3>(some);
    } else {
      few_of<kFormat, 4>(some);
    }
  }
}

void multiply(const IntegerProduct& p) {
  if (p.tokens >= least_tokens_of_many(p.format) &&
      p.blocks <= most_blocks_of_many_tokens(p.format))
    return many_tokens(p);
  if (p.format == WeightFormat::q8_0) return few_at_a_time<WeightFormat::q8_0>(p);
  if (p.format == WeightFormat::q4_0) return few_at_a_time<WeightFormat::q4_0>(p);
  if (p.format == WeightFormat::q4_k) return few_at_a_time<WeightFormat::q4_k>(p);
  if (p.format == WeightFormat::q5_k) return few_at_a_time<WeightFormat::q5_k>(p);
  few_at_a_time<WeightFormat::q6_k>(p);
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
