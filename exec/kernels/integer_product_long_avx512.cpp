// Integer products with AVX-512 VNNI of the formats of 256 weights a block: up to four tokens with
// four rows as they are, and rows into panels for more of them.

#include "exec/kernels/integer_product_avx512.hpp"
#include "exec/weights/formats/k_codec.hpp"

#if defined(__x86_64__)

namespace tandem::exec {
namespace {

using model::WeightFormat;

constexpr int kParts = 8;  // blocks of 32 in a block of 256

// 128 weights, the n-th half of a block, as unsigned integers. What is low in bytes is of q4_k and
// q5_k parts 0 and 2, high 1 and 3; of q6_k parts 0 and 1, and 2 and 3.
template <WeightFormat kFormat>
struct HalfBlock {
  static constexpr bool kLeasts = has_leasts(kFormat);
  __m512i low, high;

  TANDEM_VNNI_INLINE void load(const std::byte* block, int n) {
    const __m512i mask = _mm512_set1_epi8(15);
    constexpr std::int64_t kHalves = kFormat == WeightFormat::q4_k   ? 16
                                     : kFormat == WeightFormat::q5_k ? 48
                                                                     : 0;
    const __m512i both = _mm512_loadu_si512(block + kHalves + std::int64_t{64} * n);
    low = _mm512_and_si512(both, mask);
    high = _mm512_and_si512(_mm512_srli_epi32(both, 4), mask);
    if constexpr (kFormat == WeightFormat::q4_k) return;
    constexpr bool kSix = kFormat == WeightFormat::q6_k;
    const __m512i more =
        _mm512_broadcast_i64x4(load_32(kSix ? block + 128 + std::int64_t{32} * n : block + 16));
    const int first = kSix ? 0 : 4 * n;
    const int lanes_apart = 2;
    const int high_apart = kSix ? 4 : 1;
    const __m512i shift =
        _mm512_inserti64x4(_mm512_set1_epi32(first), _mm256_set1_epi32(first + lanes_apart), 1);
    const __m512i bits = _mm512_set1_epi8(kSix ? 3 : 1);
    const __m512i top_low = _mm512_and_si512(_mm512_srlv_epi32(more, shift), bits);
    const __m512i top_high = _mm512_and_si512(
        _mm512_srlv_epi32(more, _mm512_add_epi32(shift, _mm512_set1_epi32(high_apart))), bits);
    low = _mm512_or_si512(low, _mm512_slli_epi32(top_low, 4));
    high = _mm512_or_si512(high, _mm512_slli_epi32(top_high, 4));
  }
  struct Inputs {
    __m512i low, high;
  };
  static TANDEM_VNNI_INLINE Inputs inputs(const std::int8_t* q) {
    const __m512i a = _mm512_loadu_si512(q);
    const __m512i b = _mm512_loadu_si512(q + 64);
    if constexpr (!kLeasts) return {a, b};
    return {_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xee)};
  }
  // The 128 integers in their order.
  TANDEM_VNNI_INLINE void store(std::byte* to) const {
    if constexpr (kLeasts) {
      _mm512_storeu_si512(to, _mm512_shuffle_i32x4(low, high, 0x44));
      _mm512_storeu_si512(to + 64, _mm512_shuffle_i32x4(low, high, 0xee));
    } else {
      _mm512_storeu_si512(to, low);
      _mm512_storeu_si512(to + 64, high);
    }
  }
};

TANDEM_VNNI_INLINE __m512i each_of_four() {
  return _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
}

// Word `word` of each of four vectors of 128 bits, four times: [4 j + r], whatever j.
TANDEM_VNNI_INLINE __m512i word_of_rows(__m512i four, int word) {
  const __m512i rows = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
  return _mm512_permutexvar_epi32(_mm512_add_epi32(rows, _mm512_set1_epi32(word)), four);
}

TANDEM_VNNI_INLINE __m512i four_of(const std::byte* const (&rows)[4], std::int64_t at) {
  __m512i four = _mm512_castsi128_si512(load_16(rows[0] + at));
  four = _mm512_inserti32x4(four, load_16(rows[1] + at), 1);
  four = _mm512_inserti32x4(four, load_16(rows[2] + at), 2);
  return _mm512_inserti32x4(four, load_16(rows[3] + at), 3);
}

TANDEM_VNNI_INLINE __m512 times(__m512 half, __m512i integers) {
  return _mm512_mul_ps(half, _mm512_cvtepi32_ps(integers));
}

// Scales of four rows' parts, [4 part + row], of both halves of a block.
template <WeightFormat kFormat>
struct Scales {
  __m512 scales[2];
  __m512 leasts[2];

  TANDEM_VNNI_INLINE void load(const std::byte* const (&rows)[4]) {
    const __m512i head = four_of(rows, 0);
    const __m512i part = _mm512_setr_epi32(0, 0, 0, 0, 8, 8, 8, 8, 16, 16, 16, 16, 24, 24, 24, 24);
    const __m512i six = _mm512_set1_epi32(63);
    const __m512i four = _mm512_set1_epi32(15);
    const __m512i two = _mm512_set1_epi32(48);
    const __m512i halves = word_of_rows(head, 0);
    const __m512i a = _mm512_srlv_epi32(word_of_rows(head, 1), part);
    const __m512i b = _mm512_srlv_epi32(word_of_rows(head, 2), part);
    const __m512i c = _mm512_srlv_epi32(word_of_rows(head, 3), part);
    const __m512 d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(halves));
    const __m512 m = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(halves, 16)));
    scales[0] = times(d, _mm512_and_si512(a, six));
    leasts[0] = times(m, _mm512_and_si512(b, six));
    scales[1] = times(d, _mm512_or_si512(_mm512_and_si512(c, four),
                                         _mm512_and_si512(_mm512_srli_epi32(a, 2), two)));
    leasts[1] = times(m, _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(c, 4), four),
                                         _mm512_and_si512(_mm512_srli_epi32(b, 2), two)));
  }
};

// q6_k: the half of each row, and integer scales of 16 weights, [4 sixteenth + row], of each
// quarter of a block.
template <>
struct Scales<WeightFormat::q6_k> {
  __m512 half;
  __m512i parts[4];

  TANDEM_VNNI_INLINE void load(const std::byte* const (&rows)[4]) {
    const __m512i all = four_of(rows, 192);
    const __m512i up = _mm512_setr_epi32(24, 24, 24, 24, 16, 16, 16, 16, 8, 8, 8, 8, 0, 0, 0, 0);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      parts[i] = _mm512_srai_epi32(_mm512_sllv_epi32(word_of_rows(all, i), up), 24);
    std::uint64_t halves = 0;
    for (int r = 0; r < 4; ++r) {
      std::uint16_t one = 0;
      __builtin_memcpy(&one, rows[r] + 208, sizeof one);
      halves |= std::uint64_t{one} << (16 * r);
    }
    half = _mm512_cvtph_ps(_mm256_set1_epi64x(static_cast<long long>(halves)));
  }
};

// Sums of 128 bits that lie as parts 0, 2 and 1, 3, by part.
TANDEM_VNNI_INLINE __m512i by_part(__m512i even, __m512i odd) {
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
  const __m512i second = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
  return _mm512_add_epi32(_mm512_permutex2var_epi64(even, first, odd),
                          _mm512_permutex2var_epi64(even, second, odd));
}

// Adds the n-th half of four rows' blocks, whose first part is block b of 32 of the row, to a
// token's chains.
template <WeightFormat kFormat>
TANDEM_VNNI_INLINE void add_half(const HalfBlock<kFormat> (&w)[4], const Scales<kFormat>& of, int n,
                                 const IntegerInputs& x, std::int64_t b, __m512& chains) {
  const auto in = HalfBlock<kFormat>::inputs(x.q + b * kInputBlock);
  const __m512i zero = _mm512_setzero_si512();
  const __m512 in_scales =
      _mm512_permutexvar_ps(each_of_four(), _mm512_castps128_ps512(_mm_loadu_ps(x.scales + b)));
  const __m128i sums = load_16(x.sums + 2 * b);
  if constexpr (kFormat == WeightFormat::q6_k) {
    __m512i low[4];
    __m512i high[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      low[r] = _mm512_dpbusd_epi32(zero, w[r].low, in.low);
      high[r] = _mm512_dpbusd_epi32(zero, w[r].high, in.high);
    }
    // Of halves of parts: less the offset, times their scales.
    const __m512i offset =
        _mm512_slli_epi32(_mm512_castsi256_si512(_mm256_cvtepi16_epi32(sums)), 5);
    const __m512i low_offset = _mm512_permutexvar_epi32(each_of_four(), offset);
    const __m512i high_offset =
        _mm512_permutexvar_epi32(_mm512_add_epi32(each_of_four(), _mm512_set1_epi32(4)), offset);
    const __m512i first =
        _mm512_mullo_epi32(_mm512_sub_epi32(sums_of_rows(low), low_offset), of.parts[2 * n]);
    const __m512i second =
        _mm512_mullo_epi32(_mm512_sub_epi32(sums_of_rows(high), high_offset), of.parts[2 * n + 1]);
    const __m512i exact = _mm512_add_epi32(_mm512_shuffle_i32x4(first, second, 0x88),
                                           _mm512_shuffle_i32x4(first, second, 0xdd));
    chains = _mm512_fmadd_ps(_mm512_cvtepi32_ps(exact), _mm512_mul_ps(of.half, in_scales), chains);
  } else {
    __m512i dots[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      dots[r] = by_part(_mm512_dpbusd_epi32(zero, w[r].low, in.low),
                        _mm512_dpbusd_epi32(zero, w[r].high, in.high));
    }
    const __m512i all = _mm512_permutexvar_epi32(
        each_of_four(), _mm512_castsi128_si512(_mm_madd_epi16(sums, _mm_set1_epi16(1))));
    chains = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums_of_rows(dots)),
                             _mm512_mul_ps(of.scales[n], in_scales), chains);
    chains =
        _mm512_fnmadd_ps(_mm512_cvtepi32_ps(all), _mm512_mul_ps(of.leasts[n], in_scales), chains);
  }
}

template <WeightFormat kFormat, int T>
TANDEM_VNNI_INLINE void four_rows(const IntegerProduct& p, const FourRows& of) {
  constexpr std::int64_t kBytes = model::block_of(kFormat).bytes;
  const std::byte* rows[4];
  for (int r = 0; r < 4; ++r) rows[r] = p.w + of.row(r) * p.w_stride;
  __m512 chains[T];
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) chains[t] = _mm512_setzero_ps();
  for (std::int64_t b = 0; b < p.blocks; b += kParts) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) prefetch_ahead<kBytes>(rows[r]);
    Scales<kFormat> scales;
    scales.load(rows);
#pragma GCC unroll 2
    for (int n = 0; n < 2; ++n) {
      HalfBlock<kFormat> w[4];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) w[r].load(rows[r], n);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t)
        add_half<kFormat>(w, scales, n, p.in.token(t), b + std::int64_t{4} * n, chains[t]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) rows[r] += kBytes;
  }
#pragma GCC unroll 4
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

// [4 j + r] to four places 16 apart.
TANDEM_VNNI_INLINE void spread(__m512 from, float* to) {
  _mm_storeu_ps(to, _mm512_castps512_ps128(from));
  _mm_storeu_ps(to + 16, _mm512_extractf32x4_ps(from, 1));
  _mm_storeu_ps(to + 32, _mm512_extractf32x4_ps(from, 2));
  _mm_storeu_ps(to + 48, _mm512_extractf32x4_ps(from, 3));
}

template <WeightFormat kFormat>
TANDEM_VNNI void pack(const IntegerProduct& p, bool as_signed, const WeightPanel& to) {
  constexpr std::int64_t kBytes = model::block_of(kFormat).bytes;
  constexpr std::int64_t kBlock = model::block_of(kFormat).elements;
  alignas(64) std::byte integers[WeightPanel::kOutputs * kBlock];
  const __m512i offset = _mm512_set1_epi8(static_cast<char>(as_signed ? offset_of(kFormat) : 0));
  for (std::int64_t b = 0; b < p.blocks; b += kParts) {
    for (std::int64_t four = 0; four < WeightPanel::kOutputs; four += 4) {
      const std::byte* rows[4];
      for (int r = 0; r < 4; ++r) {
        const std::int64_t row = four + r < p.outputs ? four + r : p.outputs - 1;
        rows[r] = p.w + row * p.w_stride + b / kParts * kBytes;
        for (std::int64_t at = 0; at < kBytes; at += 64)
          _mm_prefetch(rows[r] + WeightPanel::kOutputs * p.w_stride + at, _MM_HINT_T1);
        for (int n = 0; n < 2; ++n) {
          HalfBlock<kFormat> half;
          half.load(rows[r], n);
          half.store(integers + (four + r) * kBlock + 128 * n);
        }
      }
      // [4 part + row] by part to where 16 rows of each part stand.
      Scales<kFormat> of;
      of.load(rows);
      for (int n = 0; n < 2; ++n) {
        if constexpr (kFormat == WeightFormat::q6_k) {
          spread(of.half, to.scales + 16 * (b + std::int64_t{4} * n) + four);
          for (int i = 0; i < 2; ++i) {  // two parts, each with two scales of 16 rows
            std::int32_t* const parts = to.parts + 32 * (b + std::int64_t{2} * (2 * n + i)) + four;
            spread(_mm512_castsi512_ps(of.parts[2 * n + i]), reinterpret_cast<float*>(parts));
          }
        } else {
          spread(of.scales[n], to.scales + 16 * (b + std::int64_t{4} * n) + four);
          spread(of.leasts[n], to.leasts + 16 * (b + std::int64_t{4} * n) + four);
        }
      }
    }
    for (std::int64_t part = 0; part < kParts; ++part) {
      __m512i pairs[8];
#pragma GCC unroll 8
      for (std::int64_t i = 0; i < 8; ++i) {
        const std::byte* const first = integers + (i / 4 * 8 + i % 4) * kBlock + part * kInputBlock;
        pairs[i] = _mm512_sub_epi8(_mm512_inserti64x4(_mm512_castsi256_si512(load_32(first)),
                                                      load_32(first + 4 * kBlock), 1),
                                   offset);
      }
      store_panel_block(pairs, to.q + (b + part) * WeightPanel::kBlockBytes);
    }
  }
}

}  // namespace

void few_of_long(const IntegerProduct& p) {
  if (p.format == WeightFormat::q4_k) return few_of<WeightFormat::q4_k>(p);
  if (p.format == WeightFormat::q5_k) return few_of<WeightFormat::q5_k>(p);
  few_of<WeightFormat::q6_k>(p);
}

void pack_long_panel(const IntegerProduct& p, bool as_signed, const WeightPanel& to) {
  if (p.format == WeightFormat::q4_k) return pack<WeightFormat::q4_k>(p, as_signed, to);
  if (p.format == WeightFormat::q5_k) return pack<WeightFormat::q5_k>(p, as_signed, to);
  pack<WeightFormat::q6_k>(p, as_signed, to);
}

}  // namespace tandem::exec

#endif
