// Integer products with AVX2: of few tokens one or two rows after the other.

#include "exec/kernels/integer_product_avx2.hpp"

#include <algorithm>

#if defined(__x86_64__)

namespace tandem::exec {
namespace {

using model::WeightFormat;

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

// Four parts of a block of 256 of q6_k.
template <>
struct FourBlocks<WeightFormat::q6_k> {
  __m256i w[4];
  __m256i factors[4];  // integer scales of a part's two halves
  __m128i pairs;       // the same, two a part
  __m128 scales;

  // Parts [4 n, 4 n + 4).
  TANDEM_AVX2_INLINE void load_parts(const std::byte* block, int n) {
    scales = _mm_cvtph_ps(_mm_set1_epi16(static_cast<short>(half_at(block + 208))));
    pairs = _mm_cvtepi8_epi16(
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + 192 + std::int64_t{8} * n)));
    const __m256i both = _mm256_broadcastsi128_si256(pairs);
    const __m256i first = _mm256_set_m128i(_mm_set1_epi16(0x0302), _mm_set1_epi16(0x0100));
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      w[j] = stored_part<WeightFormat::q6_k>(block, n, j);
      const auto at = static_cast<char>(4 * j);
      factors[j] = _mm256_shuffle_epi8(both, _mm256_add_epi8(first, _mm256_set1_epi8(at)));
    }
  }
  [[nodiscard]] TANDEM_AVX2_INLINE __m128 added(const IntegerInputs& x, std::int64_t b,
                                                __m128 chains) const {
    __m256i dots[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      dots[j] = _mm256_madd_epi16(_mm256_maddubs_epi16(w[j], load_32(x.q + (b + j) * kInputBlock)),
                                  factors[j]);
    }
    const __m128i taken = _mm_slli_epi32(_mm_madd_epi16(load_16(x.sums + 2 * b), pairs), 5);
    return _mm_fmadd_ps(_mm_cvtepi32_ps(_mm_sub_epi32(sums_of(dots), taken)),
                        _mm_mul_ps(scales, _mm_loadu_ps(x.scales + b)), chains);
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
        add(four, b + std::int64_t{4} * n);
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

// Four blocks of each of two rows.
template <WeightFormat kFormat>
struct TwoRows;

// Sums, scales and chains lie as [0 and 2 of one row, of the other; 1 and 3 of the one, of the
// other].
template <>
struct TwoRows<WeightFormat::q4_0> {
  static constexpr std::int64_t kBytes = 18;
  __m256i low[2][2], high[2][2];  // of a row blocks 0 and 1, and 2 and 3
  __m256 scales;

  // Of a vector of four.
  static TANDEM_AVX2_INLINE __m256i spread(__m128i four) {
    return _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(four),
                                       _mm256_setr_epi32(0, 2, 0, 2, 1, 3, 1, 3));
  }
  TANDEM_AVX2_INLINE void load(const std::byte* const (&rows)[2]) {
    const __m256i mask = _mm256_set1_epi8(15);
    std::uint64_t halves[2] = {};
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const std::byte* const first = rows[r] + kBytes * 2 * i;
        const __m256i both = two_of(first + 2, first + kBytes + 2);
        low[r][i] = _mm256_and_si256(both, mask);
        high[r][i] = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
        const int place = 32 * r + 16 * i;
        halves[0] |= static_cast<std::uint64_t>(half_at(first)) << place;
        halves[1] |= static_cast<std::uint64_t>(half_at(first + kBytes)) << place;
      }
    }
    scales = _mm256_cvtph_ps(
        _mm_set_epi64x(static_cast<long long>(halves[1]), static_cast<long long>(halves[0])));
  }
  // The chains after these blocks and inputs from block b on.
  [[nodiscard]] TANDEM_AVX2_INLINE __m256 added(const IntegerInputs& x, std::int64_t b,
                                                __m256 chains) const {
    const std::int8_t* const q = x.q + b * kInputBlock;
    __m256i both[2];
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      __m256i dots[2];
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const std::int8_t* const at = q + std::int64_t{64} * i;
        const __m256i pairs =
            _mm256_add_epi16(_mm256_maddubs_epi16(low[r][i], two_of(at, at + 32)),
                             _mm256_maddubs_epi16(high[r][i], two_of(at + 16, at + 48)));
        dots[i] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
      }
      both[r] = added_neighbours(dots[0], dots[1]);
    }
    // Of |w| <= 15 sums of 16 fit 16 bits: 15 * 127 * 16 = 30480.
    const __m256i sums = added_neighbours(both[0], both[1]);
    const __m256i taken = spread(_mm_madd_epi16(load_16(x.sums + 2 * b), _mm_set1_epi16(8)));
    const __m256 in = _mm256_castsi256_ps(spread(load_16(x.scales + b)));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(sums, taken)),
                           _mm256_mul_ps(scales, in), chains);
  }
  // Of each row the sum of its chains.
  static TANDEM_AVX2_INLINE __m128 totals(__m256 chains) {
    const __m256 pairs = _mm256_hadd_ps(chains, chains);
    return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
  }
};

// Formats of 256 weights a block with least numbers: sums, scales and chains lie as [0 to 3 of one
// row; of the other].
template <WeightFormat kFormat>
struct TwoRows {
  static_assert(has_leasts(kFormat));
  __m256i w[2][4];
  __m256 scales;
  __m256 leasts;

  // Parts [4 n, 4 n + 4) of a block of each row.
  TANDEM_AVX2_INLINE void load(const std::byte* const (&rows)[2], int n) {
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) w[r][j] = stored_part<kFormat>(rows[r], n, j);
    }
    const PartScales one = part_scales(rows[0]);
    const PartScales other = part_scales(rows[1]);
    const auto of_both = [n](std::uint64_t a, std::uint64_t b) {
      return (a >> (32 * n) & 0xffffffffU) | b >> (32 * n) << 32;
    };
    scales = times(of_both(one.scales, other.scales), rows[0], rows[1]);
    leasts = times(of_both(one.leasts, other.leasts), rows[0] + 2, rows[1] + 2);
  }
  [[nodiscard]] TANDEM_AVX2_INLINE __m256 added(const IntegerInputs& x, std::int64_t b,
                                                __m256 chains) const {
    __m256i halves[2];
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      __m256i dots[4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        dots[j] =
            _mm256_madd_epi16(_mm256_maddubs_epi16(w[r][j], load_32(x.q + (b + j) * kInputBlock)),
                              _mm256_set1_epi16(1));
      }
      // Of |w| <= 31 sums of eight fit 16 bits: 31 * 127 * 8 = 31496.
      halves[r] =
          added_neighbours(added_neighbours(dots[0], dots[1]), added_neighbours(dots[2], dots[3]));
    }
    const __m256i sums = _mm256_add_epi32(_mm256_permute2x128_si256(halves[0], halves[1], 0x20),
                                          _mm256_permute2x128_si256(halves[0], halves[1], 0x31));
    const __m256 in = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(x.scales + b));
    const __m256i in_sums = _mm256_broadcastsi128_si256(load_16(x.sums + 2 * b));
    const __m256i inputs = _mm256_madd_epi16(in_sums, _mm256_set1_epi16(1));
    chains = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_mul_ps(scales, in), chains);
    return _mm256_fnmadd_ps(_mm256_cvtepi32_ps(inputs), _mm256_mul_ps(leasts, in), chains);
  }
  static TANDEM_AVX2_INLINE __m128 totals(__m256 chains) {
    const __m256 pairs = _mm256_add_ps(chains, _mm256_permute_ps(chains, 0x4e));
    const __m256 all = _mm256_add_ps(pairs, _mm256_movehdup_ps(pairs));
    return _mm_unpacklo_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
  }

 private:
  // Four bytes each, times their halves.
  static TANDEM_AVX2_INLINE __m256 times(std::uint64_t integers, const std::byte* half,
                                         const std::byte* other) {
    const auto four = [](const std::byte* at)
                          TANDEM_AVX2 { return _mm_set1_epi16(static_cast<short>(half_at(at))); };
    const __m256 halves = _mm256_cvtph_ps(_mm_unpacklo_epi64(four(half), four(other)));
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(integers)));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(wide), halves);
  }
};

// Each of two rows goes through a half of the outputs: long streams in the order of memory.
template <WeightFormat kFormat, int T>
TANDEM_AVX2 void few_of_two_rows(const IntegerProduct& p) {
  using Two = TwoRows<kFormat>;
  constexpr std::int64_t kBytes = model::block_of(kFormat).bytes;
  constexpr bool kLong = model::block_of(kFormat).elements > kInputBlock;
  constexpr std::int64_t kStep = kLong ? kBytes : 4 * kBytes;  // in bytes, and
  constexpr std::int64_t kStepBlocks = kLong ? 8 : 4;          // in blocks of 32
  constexpr std::int64_t kAhead = 2048;
  const std::int64_t half = (p.outputs + 1) / 2;
  for (std::int64_t o = 0; o < half; ++o) {
    const std::int64_t other = std::min(o + half, p.outputs - 1);
    const std::byte* rows[2] = {p.w + o * p.w_stride, p.w + other * p.w_stride};
    __m256 chains[T];
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) chains[t] = _mm256_setzero_ps();
    const auto add = [&](const Two& two, std::int64_t b) TANDEM_AVX2 {
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) chains[t] = two.added(p.in.token(t), b, chains[t]);
    };
    std::int64_t b = 0;
    for (; b + kStepBlocks <= p.blocks; b += kStepBlocks) {
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
#pragma GCC unroll 4
        for (std::int64_t line = 0; line < kStep; line += 64)
          _mm_prefetch(rows[r] + kAhead + line, _MM_HINT_T1);
      }
      Two two;
      if constexpr (kLong) {
#pragma GCC unroll 2
        for (int n = 0; n < 2; ++n) {
          two.load(rows, n);
          add(two, b + std::int64_t{4} * n);
        }
      } else {
        two.load(rows);
        add(two, b);
      }
      rows[0] += kStep;
      rows[1] += kStep;
    }
    if constexpr (!kLong) {
      if (b < p.blocks) {
        // What is left of each row, and zeros: nothing is read beyond the last block.
        std::byte rest[2][kStep] = {};
        const auto left = static_cast<std::size_t>((p.blocks - b) * kBytes);
        for (int r = 0; r < 2; ++r) std::memcpy(rest[r], rows[r], left);
        Two two;
        two.load({rest[0], rest[1]});
        add(two, b);
      }
    }
    for (int t = 0; t < T; ++t) {
      const __m128 each = Two::totals(chains[t]);
      float* const y = p.y + t * p.y_stride;
      y[o] = _mm_cvtss_f32(each);
      y[other] = _mm_cvtss_f32(_mm_movehdup_ps(each));
    }
  }
}

template <WeightFormat kFormat, int T>
void few(const IntegerProduct& p) {
  if constexpr (kFormat == WeightFormat::q8_0 || kFormat == WeightFormat::q6_k) {
    few_of<kFormat, T>(p);
  } else {
    few_of_two_rows<kFormat, T>(p);
  }
}

template <WeightFormat kFormat>
void few_at_a_time(const IntegerProduct& p) {
  for (std::int64_t t = 0; t < p.tokens; t += kFewTokens) {
    const IntegerProduct some = p.some(t, std::min(t + kFewTokens, p.tokens));
    if (some.tokens == 1) {
      few<kFormat, 1>(some);
    } else if (some.tokens == 2) {
      few<kFormat, 2>(some);
    } else if (some.tokens == 3) {
      few<kFormat, 3>(some);
    } else {
      few<kFormat, 4>(some);
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
