// Integer products of many tokens. Lanes are tokens, whose inputs are packed once: of each weight
// row two or four neighbouring integers are broadcast and multiplied with those of a vector of
// tokens. Included by each instruction set's file once, in its anonymous namespace, behind
//   TANDEM_LANES   attribute of functions: the set's target; TANDEM_LANES_INLINE: inlined, too
//   struct Lanes   its vectors of kTokens tokens, `Integers` and `Floats`; how many rows of weights
//                  are multiplied at once (kRows); and whether products of bytes and of words are
//                  added up in 32 bits by one instruction (kDots: `dot_bytes`, `dot_words`) or sums
//                  of two are made and added (`two_of_bytes`, `two_of_words`, `add_16_bits`,
//                  `add_32_bits`, `widened`)

using model::WeightFormat;

constexpr std::int64_t kRows = Lanes::kRows;
constexpr std::int64_t kVectors = 2;  // of tokens, at once
constexpr std::int64_t kGroup = kVectors * Lanes::kTokens;
constexpr std::int64_t kEight = 8;         // tokens are packed eight at a time
constexpr std::int64_t kPieceBlocks = 32;  // of the depth at a time: weights in the first cache
constexpr std::int64_t kMostTokens = 192;  // at once: their sums beside those weights
static_assert(kMostTokens % kGroup == 0);
// Bytes of packed inputs: as much as a second-level cache holds.
constexpr std::int64_t kMostPacked = std::int64_t{512} * 1024;
static_assert(kMostPacked <= static_cast<std::int64_t>(KernelScratch::kPanelBytes));
constexpr std::int64_t kVector = 4 * Lanes::kTokens;  // bytes
constexpr std::int64_t kEightBytes = 4 * kEight;

// Formats whose integers are multiplied as words of 16 bits: with their part's scale in them
// (q6_k), or as sums of products of bytes do not fit 16 bits.
constexpr bool as_words(WeightFormat format) {
  return format == WeightFormat::q6_k || (format == WeightFormat::q8_0 && !Lanes::kDots);
}
// Bytes of a row's block, and what of it is broadcast at a time, four bytes each.
constexpr std::int64_t integer_bytes(WeightFormat format) { return as_words(format) ? 64 : 32; }
constexpr std::int64_t steps(WeightFormat format) { return integer_bytes(format) / 4; }
// By how much integers as they are multiplied exceed the format's.
constexpr std::int32_t excess(WeightFormat format) {
  if (format == WeightFormat::q8_0) return as_words(format) ? 0 : 128;  // unsigned they must be
  return format == WeightFormat::q4_0 ? 8 : 0;
}
constexpr bool needs_sums(WeightFormat format) { return has_leasts(format) || excess(format) != 0; }

// Of a block's inputs of a vector of tokens: steps, scales, sums.
constexpr std::int64_t input_bytes_of_vector(WeightFormat format) {
  return kVector * (steps(format) + 1 + (needs_sums(format) ? 1 : 0));
}
// Inputs of V vectors of tokens: for each block the steps' vectors, tokens side by side, then
// scales, then sums: of least numbers as floats, else as integers, what is to be added for the
// excess.
template <WeightFormat kFormat, std::int64_t V>
constexpr std::int64_t kInputBlockBytes = V* input_bytes_of_vector(kFormat);

// A piece of the rows: for each block their integers, 32 of a row after the other; scales (and
// least numbers) of a row's blocks after each other.
struct RowPiece {
  static constexpr std::int64_t kBytes = kRows * kPieceBlocks * (64 + 2 * 4);
  std::byte* integers;
  float* scales;
  float* leasts;

  // At the start of `memory`, at a multiple of a vector.
  [[nodiscard]] static RowPiece at(std::byte* memory) {
    auto* const scales = reinterpret_cast<float*>(memory + kRows * kPieceBlocks * 64);
    return {memory, scales, scales + kRows * kPieceBlocks};
  }
};

TANDEM_LANES_INLINE void store_32(void* to, __m256i v) {
  _mm256_store_si256(static_cast<__m256i*>(to), v);
}

// Eight vectors of eight: v[i][j] becomes v[j][i].
TANDEM_LANES_INLINE void transpose(__m256i (&v)[8]) {
  __m256i pairs[8];
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < 4; ++i) {
    pairs[2 * i] = _mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
    pairs[2 * i + 1] = _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
  }
  __m256i fours[8];  // columns 0 and 4, 1 and 5, ... of rows 0 to 3, then of rows 4 to 7
#pragma GCC unroll 2
  for (std::int64_t i = 0; i < 2; ++i) {
    fours[4 * i] = _mm256_unpacklo_epi64(pairs[4 * i], pairs[4 * i + 2]);
    fours[4 * i + 1] = _mm256_unpackhi_epi64(pairs[4 * i], pairs[4 * i + 2]);
    fours[4 * i + 2] = _mm256_unpacklo_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
    fours[4 * i + 3] = _mm256_unpackhi_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2x128_si256(fours[i], fours[4 + i], 0x20);
    v[i + 4] = _mm256_permute2x128_si256(fours[i], fours[4 + i], 0x31);
  }
}

// Packs tokens [0, count) of `in`, at most V vectors; lanes that there are not repeat the last.
template <WeightFormat kFormat, std::int64_t V>
TANDEM_LANES void pack_inputs(const IntegerInputs& in, std::int64_t count, std::int64_t blocks,
                              std::byte* to) {
  const __m256i first = _mm256_set1_epi32(static_cast<int>(0x01800080U));
  const __m256i second = _mm256_set1_epi32(static_cast<int>(0x03800280U));
  for (std::int64_t eight = 0; eight < V * kVector / kEightBytes; ++eight) {
    IntegerInputs tokens[kEight];
    for (std::int64_t i = 0; i < kEight; ++i)
      tokens[i] = in.token(std::min(eight * kEight + i, count - 1));
    std::byte* block = to + eight * kEightBytes;
    for (std::int64_t b = 0; b < blocks; ++b, block += kInputBlockBytes<kFormat, V>) {
      __m256i q[8];
#pragma GCC unroll 8
      for (std::int64_t i = 0; i < 8; ++i) q[i] = load_32(tokens[i].q + b * kInputBlock);
      transpose(q);
      std::byte* at = block;
#pragma GCC unroll 8
      for (std::int64_t i = 0; i < 8; ++i) {
        if constexpr (as_words(kFormat)) {
          // Bytes go into the upper halves of words, from where they are shifted with their sign.
          const __m256i begin = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0,
                                                  0x04040404, 0x08080808, 0x0c0c0c0c);
          const __m256i low = _mm256_shuffle_epi8(q[i], _mm256_or_si256(first, begin));
          const __m256i high = _mm256_shuffle_epi8(q[i], _mm256_or_si256(second, begin));
          store_32(at, _mm256_srai_epi16(low, 8));
          store_32(at + V * kVector, _mm256_srai_epi16(high, 8));
          at += 2 * V * kVector;
        } else {
          store_32(at, q[i]);
          at += V * kVector;
        }
      }
      auto* const scales = reinterpret_cast<float*>(at);
      for (std::int64_t i = 0; i < 8; ++i) scales[i] = tokens[i].scales[b];
      at += V * kVector;
      if constexpr (has_leasts(kFormat)) {
        auto* const sums = reinterpret_cast<float*>(at);
        for (std::int64_t i = 0; i < 8; ++i) sums[i] = static_cast<float>(tokens[i].sum(b));
      } else if constexpr (needs_sums(kFormat)) {
        auto* const sums = reinterpret_cast<std::int32_t*>(at);
        for (std::int64_t i = 0; i < 8; ++i) sums[i] = -excess(kFormat) * tokens[i].sum(b);
      }
    }
  }
}

inline std::int32_t four_bytes(const std::byte* from) {
  std::int32_t bytes = 0;
  std::memcpy(&bytes, from, sizeof bytes);
  return bytes;
}

// Sums of the products of a block's integers with those of V vectors of tokens, less the excess.
template <WeightFormat kFormat, std::int64_t V, class L>
TANDEM_LANES_INLINE void sums_by_dots(const std::byte* integers, const std::byte* x,
                                      typename L::Integers (&sums)[kRows][V]) {
  constexpr std::int64_t kSteps = steps(kFormat);
#pragma GCC unroll 2
  for (std::int64_t v = 0; v < V; ++v) {
    const auto begin =
        excess(kFormat) == 0 ? L::set(0) : L::integers(x + ((kSteps + 1) * V + v) * kVector);
#pragma GCC unroll 12
    for (std::int64_t r = 0; r < kRows; ++r) sums[r][v] = begin;
  }
#pragma GCC unroll 1
  for (std::int64_t i = 0; i < kSteps; ++i) {
    typename L::Integers in[V];
#pragma GCC unroll 2
    for (std::int64_t v = 0; v < V; ++v) in[v] = L::integers(x + (i * V + v) * kVector);
#pragma GCC unroll 12
    for (std::int64_t r = 0; r < kRows; ++r) {
      const auto w = L::set(four_bytes(integers + r * integer_bytes(kFormat) + 4 * i));
#pragma GCC unroll 2
      for (std::int64_t v = 0; v < V; ++v) {
        if constexpr (as_words(kFormat)) {
          L::dot_words(sums[r][v], w, in[v]);
        } else {
          L::dot_bytes(sums[r][v], w, in[v]);
        }
      }
    }
  }
}

// Steps whose sums of two products of bytes fit 16 bits: of |w| <= 15 (31), |q| <= 127
//   2 * 15 * 127 * 8 = 30480,  2 * 31 * 127 * 4 = 31496  < 2^15
constexpr std::int64_t steps_in_16_bits(WeightFormat format) {
  return format == WeightFormat::q5_k ? 4 : 8;
}

// Products of a step of a block with those of V vectors of tokens begin sums, or are added to them.
template <WeightFormat kFormat, std::int64_t V, bool kBegin, class L>
TANDEM_LANES_INLINE void add_step(const std::byte* integers, const std::byte* x,
                                  typename L::Integers (&sums)[kRows][V]) {
  typename L::Integers in[V];
#pragma GCC unroll 2
  for (std::int64_t v = 0; v < V; ++v) in[v] = L::integers(x + v * kVector);
#pragma GCC unroll 12
  for (std::int64_t r = 0; r < kRows; ++r) {
    const auto w = L::set(four_bytes(integers + r * integer_bytes(kFormat)));
#pragma GCC unroll 2
    for (std::int64_t v = 0; v < V; ++v) {
      const auto products =
          as_words(kFormat) ? L::two_of_words(w, in[v]) : L::two_of_bytes(w, in[v]);
      if constexpr (kBegin) {
        sums[r][v] = products;
      } else if constexpr (as_words(kFormat)) {
        L::add_32_bits(sums[r][v], products);
      } else {
        L::add_16_bits(sums[r][v], products);
      }
    }
  }
}

// Steps [begin, end) of a block.
template <WeightFormat kFormat, std::int64_t V, class L>
TANDEM_LANES_INLINE void add_steps(const std::byte* integers, const std::byte* x,
                                   std::int64_t begin, std::int64_t end,
                                   typename L::Integers (&sums)[kRows][V]) {
  add_step<kFormat, V, true, L>(integers + 4 * begin, x + begin * V * kVector, sums);
#pragma GCC unroll 1
  for (std::int64_t i = begin + 1; i < end; ++i)
    add_step<kFormat, V, false, L>(integers + 4 * i, x + i * V * kVector, sums);
}

// The same, but for the excess, which is still to be taken away.
template <WeightFormat kFormat, std::int64_t V, class L>
TANDEM_LANES_INLINE void sums_by_twos(const std::byte* integers, const std::byte* x,
                                      typename L::Integers (&sums)[kRows][V]) {
  if constexpr (as_words(kFormat)) {
    add_steps<kFormat, V, L>(integers, x, 0, steps(kFormat), sums);
  } else {
    constexpr std::int64_t kSteps = steps(kFormat);
    constexpr std::int64_t kTogether = steps_in_16_bits(kFormat);
#pragma GCC unroll 2
    for (std::int64_t begin = 0; begin < kSteps; begin += kTogether) {
      typename L::Integers shorts[kRows][V];
      add_steps<kFormat, V, L>(integers, x, begin, begin + kTogether, shorts);
#pragma GCC unroll 12
      for (std::int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (std::int64_t v = 0; v < V; ++v) {
          const auto part = L::widened(shorts[r][v]);
          sums[r][v] = begin == 0 ? part : L::sum(sums[r][v], part);
        }
      }
    }
  }
}

// The sums of rows and vectors, over `count` blocks from block `first` of the rows on, are added to
// `chains`, [kChains][kRows][V] vectors.
template <WeightFormat kFormat, std::int64_t V, class L = Lanes>
TANDEM_LANES __attribute__((noinline)) void multiply_piece(const RowPiece& w, const std::byte* x,
                                                           std::int64_t first, std::int64_t count,
                                                           float* chains) {
  const float* const scales = w.scales;
  const float* const leasts = w.leasts;
  for (std::int64_t b = 0; b < count; ++b, x += kInputBlockBytes<kFormat, V>) {
    typename L::Integers sums[kRows][V];
    const std::byte* const integers = w.integers + b * kRows * integer_bytes(kFormat);
    if constexpr (L::kDots) {
      sums_by_dots<kFormat, V, L>(integers, x, sums);
    } else {
      sums_by_twos<kFormat, V, L>(integers, x, sums);
    }
    float* const chain = chains + (first + b) % kChains * (kRows * V * L::kTokens);
    const auto* const more = reinterpret_cast<const float*>(x + steps(kFormat) * V * kVector);
#pragma GCC unroll 12
    for (std::int64_t r = 0; r < kRows; ++r) {
      const auto scale = L::set(scales[r * kPieceBlocks + b]);
#pragma GCC unroll 2
      for (std::int64_t v = 0; v < V; ++v) {
        float* const at = chain + (r * V + v) * L::kTokens;
        const auto in = L::load(more + v * L::kTokens);
        auto exact = sums[r][v];
        if constexpr (!L::kDots && excess(kFormat) != 0)
          exact = L::sum(exact, L::integers(more + (V + v) * L::kTokens));
        auto sum = L::fmadd(L::floats(exact), L::mul(scale, in), L::load(at));
        if constexpr (has_leasts(kFormat)) {
          const auto least = L::set(leasts[r * kPieceBlocks + b]);
          sum = L::fnmadd(L::load(more + (V + v) * L::kTokens), L::mul(least, in), sum);
        }
        L::store(at, sum);
      }
    }
  }
}

TANDEM_LANES_INLINE void store_words(std::byte* to, __m256i bytes) {
  store_32(to, _mm256_cvtepi8_epi16(_mm256_castsi256_si128(bytes)));
  store_32(to + 32, _mm256_cvtepi8_epi16(_mm256_extracti128_si256(bytes, 1)));
}

// The 32 integers of a block of q8_0 or q4_0; of q4_0 without the 8 that is taken from each.
template <WeightFormat kFormat>
TANDEM_LANES_INLINE __m256i stored_integers(const std::byte* block) {
  if constexpr (kFormat == WeightFormat::q8_0) return load_32(block + 2);
  const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 2));
  const __m256i wide =
      _mm256_inserti128_si256(_mm256_castsi128_si256(both), _mm_srli_epi16(both, 4), 1);
  return _mm256_and_si256(wide, _mm256_set1_epi8(15));
}

// Block `b` of a row's piece, which is one block of the format.
template <WeightFormat kFormat>
TANDEM_LANES_INLINE void unpack_short(const std::byte* block, std::int64_t row, std::int64_t b,
                                      const RowPiece& to) {
  std::byte* const integers = to.integers + (b * kRows + row) * integer_bytes(kFormat);
  const __m256i stored = stored_integers<kFormat>(block);
  if constexpr (as_words(kFormat)) {
    store_words(integers, stored);
  } else if constexpr (kFormat == WeightFormat::q8_0) {
    store_32(integers, _mm256_xor_si256(stored, _mm256_set1_epi8(static_cast<char>(0x80))));
  } else {
    store_32(integers, stored);
  }
  to.scales[row * kPieceBlocks + b] =
      _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half_at(block))));
}

TANDEM_LANES_INLINE __m256 half_everywhere(const std::byte* half) {
  return _mm256_cvtph_ps(_mm_set1_epi16(static_cast<short>(half_at(half))));
}

// Eight numbers of six bits each (of the scales of q4_k and q5_k), times the half.
TANDEM_LANES_INLINE __m256 times(std::uint64_t integers, const std::byte* half) {
  const __m256i wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(integers)));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(wide), half_everywhere(half));
}

// Blocks [b, b + 8) of a row's piece, which are one block of the format.
template <WeightFormat kFormat>
TANDEM_LANES_INLINE void unpack_long(const std::byte* block, std::int64_t row, std::int64_t b,
                                     const RowPiece& to) {
  float* const scales = to.scales + row * kPieceBlocks + b;
#pragma GCC unroll 8
  for (int part = 0; part < 8; ++part) {
    std::byte* const integers = to.integers + ((b + part) * kRows + row) * integer_bytes(kFormat);
    const __m256i stored = stored_part<kFormat>(block, part / 4, part % 4);
    if constexpr (kFormat == WeightFormat::q6_k) {
      const __m256i centred = _mm256_sub_epi8(stored, _mm256_set1_epi8(32));
      const std::byte* const factors = block + 192 + std::int64_t{2} * part;
      const auto factor = [&](int i) TANDEM_LANES {
        return _mm256_set1_epi16(static_cast<std::int8_t>(factors[i]));
      };
      store_32(integers, _mm256_mullo_epi16(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(centred)),
                                            factor(0)));
      store_32(integers + 32,
               _mm256_mullo_epi16(_mm256_cvtepi8_epi16(_mm256_extracti128_si256(centred, 1)),
                                  factor(1)));
    } else {
      store_32(integers, stored);
    }
  }
  if constexpr (kFormat == WeightFormat::q6_k) {
    _mm256_storeu_ps(scales, half_everywhere(block + 208));
  } else {
    const PartScales of = part_scales(block);
    _mm256_storeu_ps(scales, times(of.scales, block));
    _mm256_storeu_ps(to.leasts + row * kPieceBlocks + b, times(of.leasts, block + 2));
  }
}

// Blocks [first, first + count) of the rows; those that there are not repeat the last.
template <WeightFormat kFormat>
TANDEM_LANES void unpack_rows(const IntegerProduct& p, std::int64_t o, std::int64_t first,
                              std::int64_t count, const RowPiece& to) {
  constexpr std::int64_t kBytes = model::block_of(kFormat).bytes;
  constexpr std::int64_t kWhole = model::block_of(kFormat).elements / kInputBlock;
  for (std::int64_t r = 0; r < kRows; ++r) {
    const std::byte* row =
        p.w + std::min(o + r, p.outputs - 1) * p.w_stride + first / kWhole * kBytes;
    const std::byte* const next = row + kRows * p.w_stride;
    for (std::int64_t line = 0; line < count / kWhole * kBytes; line += 64)
      _mm_prefetch(next + line, _MM_HINT_T1);
    for (std::int64_t b = 0; b < count; b += kWhole, row += kBytes) {
      if constexpr (kWhole > 1) {
        unpack_long<kFormat>(row, r, b, to);
      } else {
        unpack_short<kFormat>(row, r, b, to);
      }
    }
  }
}

// Adds up chains in the order that is the format's, and stores them.
template <std::int64_t V>
TANDEM_LANES void store_sums(const float* chains, std::int64_t rows, std::int64_t tokens, float* y,
                             std::int64_t y_stride) {
  using L = Lanes;
  alignas(64) float sums[kRows][V * L::kTokens];
  constexpr std::int64_t kChain = kRows * V * L::kTokens;
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t v = 0; v < V; ++v) {
      const float* const at = chains + (r * V + v) * L::kTokens;
      const auto chain = [at](std::int64_t i) TANDEM_LANES { return L::load(at + i * kChain); };
      L::store(sums[r] + v * L::kTokens,
               L::add(L::add(chain(0), chain(2)), L::add(chain(1), chain(3))));
    }
  }
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t r = 0; r < rows; ++r) y[t * y_stride + r] = sums[r][t];
  }
}

// Calls body<V>(first, count) with groups of tokens, the last of one vector if that is enough.
template <class Body>
inline void for_groups(std::int64_t tokens, const Body& body) {
  for (std::int64_t t = 0; t < tokens; t += kGroup) {
    const std::int64_t count = std::min(kGroup, tokens - t);
    if (count > Lanes::kTokens) {
      body.template operator()<kVectors>(t, count);
    } else {
      body.template operator()<1>(t, count);
    }
  }
}

// Sums of a group: four chains of the rows.
constexpr std::int64_t kChainFloats = kChains * kRows * kGroup;
static_assert(RowPiece::kBytes % kVector == 0 &&
              RowPiece::kBytes / 4 + kMostTokens / kGroup * kChainFloats <=
                  static_cast<std::int64_t>(KernelScratch::kTileFloats));

// At most kMostTokens tokens, whose inputs `packed` has room for.
template <WeightFormat kFormat>
TANDEM_LANES void product_of(const IntegerProduct& p, std::byte* packed, std::byte* memory) {
  const std::int64_t group_bytes = p.blocks * kInputBlockBytes<kFormat, kVectors>;
  for_groups(p.tokens, [&]<std::int64_t V>(std::int64_t t, std::int64_t count) TANDEM_LANES {
    pack_inputs<kFormat, V>(p.in.token(t), count, p.blocks, packed + t / kGroup * group_bytes);
  });
  const RowPiece piece = RowPiece::at(memory);
  auto* const chains = reinterpret_cast<float*>(memory + RowPiece::kBytes);
  const std::int64_t groups = (p.tokens + kGroup - 1) / kGroup;
  for (std::int64_t o = 0; o < p.outputs; o += kRows) {
    std::fill_n(chains, groups * kChainFloats, 0.0F);
    for (std::int64_t b = 0; b < p.blocks; b += kPieceBlocks) {
      const std::int64_t count = std::min(kPieceBlocks, p.blocks - b);
      unpack_rows<kFormat>(p, o, b, count, piece);
      for_groups(p.tokens,
                 [&]<std::int64_t V>(std::int64_t t, std::int64_t /*count*/) TANDEM_LANES {
                   multiply_piece<kFormat, V>(
                       piece, packed + t / kGroup * group_bytes + b * kInputBlockBytes<kFormat, V>,
                       b, count, chains + t / kGroup * kChainFloats);
                 });
    }
    const std::int64_t rows = std::min<std::int64_t>(kRows, p.outputs - o);
    for_groups(p.tokens, [&]<std::int64_t V>(std::int64_t t, std::int64_t count) TANDEM_LANES {
      store_sums<V>(chains + t / kGroup * kChainFloats, rows, count, p.y + t * p.y_stride + o,
                    p.y_stride);
    });
  }
}

template <WeightFormat kFormat>
void some_at_a_time(const IntegerProduct& p) {
  const KernelScratch scratch = kernel_scratch();
  const std::int64_t groups = kMostPacked / (p.blocks * kInputBlockBytes<kFormat, kVectors>);
  const std::int64_t fit = std::max(Lanes::kTokens, std::min(kMostTokens, groups * kGroup));
  for (std::int64_t t = 0; t < p.tokens; t += fit) {
    product_of<kFormat>(p.some(t, std::min(t + fit, p.tokens)), scratch.panel,
                        reinterpret_cast<std::byte*>(scratch.tile));
  }
}

// The longest rows that product_of_lanes() takes, in blocks.
std::int64_t most_blocks_of_lanes(WeightFormat format) {
  return kMostPacked / input_bytes_of_vector(format);
}

void product_of_lanes(const IntegerProduct& p) {
  if (p.format == WeightFormat::q8_0) return some_at_a_time<WeightFormat::q8_0>(p);
  if (p.format == WeightFormat::q4_0) return some_at_a_time<WeightFormat::q4_0>(p);
  if (p.format == WeightFormat::q4_k) return some_at_a_time<WeightFormat::q4_k>(p);
  if (p.format == WeightFormat::q5_k) return some_at_a_time<WeightFormat::q5_k>(p);
  some_at_a_time<WeightFormat::q6_k>(p);
}
