// Matrix times many vectors, of weights that are floats or are decoded to them. Lanes are tokens:
// of each weight one number is broadcast and multiplied with vectors of as many tokens' inputs,
// which are packed once. No sum crosses lanes, no weight is copied but to be decoded, and a step's
// time follows its tokens, rounded up to whole vectors. docs/decisions/0004-kernels.md has the
// measurements behind the choices.

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "exec/kernels/scratch.hpp"
#include "exec/kernels/weight_product.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/many_row_product.cpp"
#include "exec/kernels/targets.hpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::exec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;
using V = hn::Vec<Floats>;

// Weight rows that are multiplied together: with two vectors of tokens 24 sums and two inputs fit
// in 32 registers, or 12 and two in 16.
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
constexpr int kRows = kManyRegisters ? 12 : 6;
constexpr int kVectors = 2;
// Floats of the depth that are walked at a time: packed inputs of 32 tokens are 128 KiB.
constexpr std::int64_t kPieceDepth = 1024;
constexpr std::int64_t kLine = 64;        // bytes
constexpr std::int64_t kPrefetched = 16;  // floats of the depth between prefetches
// Floats from a decoded row to the next: lines of different sets.
constexpr std::int64_t kTileStride = kPieceDepth + 16;
static_assert(kRows * kTileStride <= static_cast<std::int64_t>(KernelScratch::kTileFloats));
// Whether weights of 16 bits are decoded beside products: SSE4 has neither registers for it nor an
// instruction, and NEON was not measured.
constexpr bool kDecodesBeside = HWY_TARGET <= HWY_AVX2;

HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(Floats())); }

// Floats of packed inputs at a time: half of the second-level cache, as the weights pass through
// it; a small one's where the system does not say.
std::int64_t packed_in_cache() {
  constexpr std::int64_t kLeast = std::int64_t{64} * 1024;
  constexpr auto kMost = static_cast<std::int64_t>(KernelScratch::kInputBytes / sizeof(float));
  const auto floats = static_cast<std::int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE)) / 2 /
                      static_cast<std::int64_t>(sizeof(float));
  return std::clamp(floats, kLeast, kMost);
}

#if HWY_TARGET != HWY_SCALAR
using Four = hn::FixedTag<float, 4>;

// Four vectors of four: v[i][j] becomes v[j][i].
HWY_INLINE void transpose(hn::Vec<Four> (&v)[4]) {
  const Four d;
  const hn::Repartition<double, Four> pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v[0], v[1]));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v[2], v[3]));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v[0], v[1]));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v[2], v[3]));
  v[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
  v[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
}

// to[c, r] = from[r, c] for four r, or its sum with what `to` holds; strides in floats.
HWY_INLINE void transpose_fours(const float* from, std::int64_t from_stride, std::int64_t columns,
                                float* to, std::int64_t to_stride, bool add) {
  const Four d;
  for (std::int64_t c = 0; c < columns; c += 4) {
    hn::Vec<Four> v[4];
    for (int i = 0; i < 4; ++i) v[i] = hn::LoadU(d, from + i * from_stride + c);
    transpose(v);
    for (int i = 0; i < 4; ++i) {
      float* const at = to + (c + i) * to_stride;
      hn::StoreU(add ? hn::Add(hn::LoadU(d, at), v[i]) : v[i], d, at);
    }
  }
}
#endif

// to[c, r] = from[r, c], or its sum with what `to` holds; strides in floats.
void transpose(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
               float* to, std::int64_t to_stride, bool add) {
  std::int64_t r = 0;
  std::int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  c = columns / 4 * 4;
  for (; r + 4 <= rows; r += 4) {
    transpose_fours(from + r * from_stride, from_stride, c, to + r, to_stride, add);
  }
#endif
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = row < r ? c : 0; column < columns; ++column) {
      float& sum = to[column * to_stride + row];
      const float x = from[row * from_stride + column];
      sum = add ? sum + x : x;
    }
  }
}

// A piece of the depth of some weight rows, as f32, and what is to be prefetched meanwhile: as many
// rows of stored bytes, of which `bytes` go by while kPrefetched floats are multiplied.
struct Rows {
  const float* w;
  std::int64_t stride;
  std::int64_t depth;
  const std::byte* next;  // null: nothing
  std::int64_t next_stride;
  std::int64_t bytes;

  // Calls step(number k of the first row, stride) for each k of the depth.
  template <int R, class Step>
  HWY_INLINE void walk(const Step& step) const {
    const float* HWY_RESTRICT at = w;
    const std::byte* ahead = next;
    std::int64_t k = 0;
    for (; k + kPrefetched <= depth; k += kPrefetched) {
      if (ahead != nullptr) {  // into the second-level cache: the first would lose what is in use
        for (int r = 0; r < R; ++r) __builtin_prefetch(ahead + r * next_stride, 0, 2);
        ahead += bytes;
      }
      HWY_UNROLL(4)
      for (int i = 0; i < kPrefetched; ++i) step(at++, stride);
    }
    for (; k < depth; ++k) step(at++, stride);
  }
};

// Formats of 16 bits: how kGroup weights are decoded, and where number k of them is then: at
// odd() * (k % 2) + kEven * (k / 2). `vector`: a vector of them in order.
struct Halves {
  [[maybe_unused]] static constexpr std::int64_t kGroup = 16;
  [[maybe_unused]] static constexpr std::int64_t kEven = 2;
  static HWY_INLINE std::int64_t odd() { return 1; }
  static HWY_INLINE V vector(const std::byte* from) {
    const hn::Rebind<hwy::float16_t, Floats> half;
    return hn::PromoteTo(Floats(), hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from)));
  }
  static HWY_INLINE void decode(const std::byte* HWY_RESTRICT from, float* HWY_RESTRICT to) {
    HWY_UNROLL(4)
    for (std::int64_t i = 0; i < kGroup; i += lanes())
      hn::Store(vector(from + 2 * i), Floats(), to + i);
  }
};

// Of each two the first go into one vector, the second into another: an instruction a vector, where
// their order takes two.
struct Brains {
  [[maybe_unused]] static constexpr std::int64_t kGroup = 2 * hn::MaxLanes(Floats());
  [[maybe_unused]] static constexpr std::int64_t kEven = 1;
  static HWY_INLINE std::int64_t odd() { return lanes(); }
  static HWY_INLINE V vector(const std::byte* from) {
    const hn::Rebind<hwy::bfloat16_t, Floats> half;
    return hn::PromoteTo(Floats(), hn::LoadU(half, reinterpret_cast<const hwy::bfloat16_t*>(from)));
  }
  static HWY_INLINE void decode(const std::byte* HWY_RESTRICT from, float* HWY_RESTRICT to) {
    const Floats d;
    const hn::Repartition<std::uint32_t, Floats> words;
    const auto two = hn::LoadU(words, reinterpret_cast<const std::uint32_t*>(from));
    hn::Store(hn::BitCast(d, hn::ShiftLeft<16>(two)), d, to);
    hn::Store(hn::BitCast(d, hn::And(two, hn::Set(words, 0xffff0000U))), d, to + lanes());
  }
};

// As Rows, of weights of 16 bits: a group is decoded before the one ahead of it is multiplied, so
// that products wait neither for memory nor for the tile.
template <class Format, bool kDecode>
struct Groups {
  static constexpr std::int64_t kGroup = Format::kGroup;
  const std::byte* stored;
  std::int64_t stored_stride;
  float* tile;         // rows kTileStride apart
  std::int64_t slots;  // groups that a row of it has before the first is overwritten; a power of 2
  std::int64_t depth;

  // Where weights that are no whole group lie in the tile, in order.
  [[nodiscard]] std::int64_t rest() const { return std::min(depth / kGroup, slots) * kGroup; }

  template <int R, class Step>
  HWY_INLINE void walk(const Step& step) const {
    const std::int64_t groups = depth / kGroup;
    const std::int64_t stride = stored_stride;
    const std::int64_t mask = slots - 1;
    float* const rows = tile;
    const std::byte* from = stored;
    const auto decode = [&](std::int64_t g) HWY_ATTR {
      float* const to = rows + (g & mask) * kGroup;
      const std::byte* at = from;
      HWY_UNROLL(12)
      for (int r = 0; r < R; ++r, at += stride) {
        Format::decode(at, to + r * kTileStride);
        __builtin_prefetch(at + R * stride, 0, 2);
      }
      from += kGroup * 2;
    };
    if (kDecode && groups > 0) decode(0);
    for (std::int64_t g = 0; g < groups; ++g) {
      if (kDecode && g + 1 < groups) decode(g + 1);
      const float* const group = rows + (g & mask) * kGroup;
      HWY_UNROLL(2)
      for (std::int64_t i = 0; i < kGroup / 2; ++i) {
        const float* const at = group + i * Format::kEven;
        step(at, kTileStride);
        step(at + Format::odd(), kTileStride);
      }
    }
    const float* at = rows + rest();
    for (std::int64_t k = groups * kGroup; k < depth; ++k) step(at++, kTileStride);
  }

  // Before walk: what is no whole group.
  HWY_INLINE void decode_rest(model::WeightFormat format, int row_count) const {
    const std::int64_t whole = depth / kGroup * kGroup;
    const std::int64_t vectors = whole + (depth - whole) / lanes() * lanes();
    for (int r = 0; r < row_count; ++r) {
      const std::byte* const from = stored + r * stored_stride;
      float* const to = tile + r * kTileStride + rest() - whole;
      for (std::int64_t k = whole; k < vectors; k += lanes())
        hn::Store(Format::vector(from + 2 * k), Floats(), to + k);
      if (vectors < depth) unpack(format, from + 2 * vectors, depth - vectors, to + vectors);
    }
  }
};

// sums[r, t] = sum over k, in this order, of w[r, k] x[k, t], of R rows and C vectors of tokens.
template <int R, int C, class Weights>
HWY_INLINE void multiply(const Weights& w, const float* HWY_RESTRICT x, float* HWY_RESTRICT sums) {
  const Floats d;
  const std::int64_t n = lanes();
  V acc[R * C];
  HWY_UNROLL(32)
  for (int i = 0; i < R * C; ++i) acc[i] = hn::Zero(d);
  const auto step = [&](const float* HWY_RESTRICT at, std::int64_t stride) HWY_ATTR
      __attribute__((always_inline)) {
    V in[C];
    HWY_UNROLL(2)
    for (int c = 0; c < C; ++c) in[c] = hn::Load(d, x + c * n);
    HWY_UNROLL(12)
    for (int r = 0; r < R; ++r) {
      const V weight = hn::Set(d, at[r * stride]);
      HWY_UNROLL(2)
      for (int c = 0; c < C; ++c) acc[r * C + c] = hn::MulAdd(weight, in[c], acc[r * C + c]);
    }
    x += C * n;
  };
  w.template walk<R>(step);
  HWY_UNROLL(32)
  for (int i = 0; i < R * C; ++i) hn::Store(acc[i], d, sums + i * n);
}

// One piece of the depth for some tokens, whose packed inputs are panels of kVectors vectors, the
// last of one where that is enough.
struct Piece {
  const WeightProduct& p;
  std::int64_t first_token;
  std::int64_t tokens;
  std::int64_t begin;  // of the depth
  std::int64_t depth;
  const float* packed;

  // Vectors of the panel that begins with a token.
  [[nodiscard]] std::int64_t vectors(std::int64_t token) const {
    return tokens - token <= lanes() ? 1 : kVectors;
  }
};

void pack(const Piece& piece, float* packed) {
  const WeightProduct& p = piece.p;
  // Of the piece, the part that inputs have: all but zeros around them.
  const std::int64_t begin = std::max(piece.begin, p.before);
  const std::int64_t end = std::min(piece.begin + piece.depth, p.depth - p.after);
  for (std::int64_t t = 0; t < piece.tokens; t += kVectors * lanes()) {
    const std::int64_t width = piece.vectors(t) * lanes();
    const std::int64_t count = std::min(width, piece.tokens - t);
    float* const panel = packed + t * piece.depth;
    if (count < width || begin > piece.begin || end < piece.begin + piece.depth)
      std::fill_n(panel, piece.depth * width, 0.0F);
    if (begin >= end) continue;
    transpose(p.x + (piece.first_token + t) * p.x_stride + begin - p.before, p.x_stride, count,
              end - begin, panel + (begin - piece.begin) * width, width, false);
  }
}

// All tokens of a piece with the R weight rows from `o` on: the first panel's with `first`, which
// may decode what the others read.
template <int R, class First, class Others>
HWY_INLINE void panels_of(const Piece& piece, std::int64_t o, const First& first,
                          const Others& others) {
  const WeightProduct& p = piece.p;
  HWY_ALIGN float sums[static_cast<std::size_t>(R * kVectors) * hn::MaxLanes(Floats())];
  for (std::int64_t t = 0; t < piece.tokens; t += kVectors * lanes()) {
    const float* const panel = piece.packed + t * piece.depth;
    const std::int64_t vectors = piece.vectors(t);
    const auto with = [&](const auto& weights) HWY_ATTR {
      if (vectors == kVectors) {
        multiply<R, kVectors>(weights, panel, sums);
      } else {
        multiply<R, 1>(weights, panel, sums);
      }
    };
    if (t == 0) {
      with(first);
    } else {
      with(others);
    }
    transpose(sums, vectors * lanes(), R, std::min(vectors * lanes(), piece.tokens - t),
              p.y + (piece.first_token + t) * p.y_stride + o, p.y_stride, piece.begin > 0);
  }
}

// R weight rows of 16 bits.
template <class Format, int R>
HWY_INLINE void halves_of(const Piece& piece, std::int64_t o, const std::byte* stored) {
  const WeightProduct& p = piece.p;
  // All of a row for tokens that come later, or what a moment needs.
  const std::int64_t slots = piece.tokens > kVectors * lanes() ? kPieceDepth / Format::kGroup : 2;
  const Groups<Format, true> first{stored, p.w_stride, kernel_scratch().tile, slots, piece.depth};
  const Groups<Format, false> others{stored, p.w_stride, first.tile, slots, piece.depth};
  first.decode_rest(p.format, R);
  panels_of<R>(piece, o, first, others);
}

// R weight rows from `o` on.
template <int R>
HWY_INLINE void rows_of(const Piece& piece, std::int64_t o) {
  const WeightProduct& p = piece.p;
  const model::FormatBlock block = model::block_of(p.format);
  const auto bytes = [&block](std::int64_t weights) {
    return weights * block.bytes / block.elements;
  };
  const std::byte* const stored = p.w + o * p.w_stride + bytes(piece.begin);
  if constexpr (kDecodesBeside && R == kRows) {
    if (p.format == model::WeightFormat::f16) return halves_of<Halves, R>(piece, o, stored);
    if (p.format == model::WeightFormat::bf16) return halves_of<Brains, R>(piece, o, stored);
  }
  Rows rows{.w = reinterpret_cast<const float*>(stored),
            .stride = p.w_stride / static_cast<std::int64_t>(sizeof(float)),
            .depth = piece.depth,
            .next = stored + R * p.w_stride,
            .next_stride = p.w_stride,
            .bytes = bytes(kPrefetched)};
  if (p.format != model::WeightFormat::f32) {
    float* const tile = kernel_scratch().tile;
    rows.w = tile;
    rows.stride = kTileStride;
    for (int r = 0; r < R; ++r)
      unpack(p.format, stored + r * p.w_stride, piece.depth, tile + r * rows.stride);
  }
  Rows others = rows;
  others.next = nullptr;
  panels_of<R>(piece, o, rows, others);
}

void many_row_product(const WeightProduct& p) {
  static const std::int64_t most = packed_in_cache();
  float* const packed = reinterpret_cast<float*>(kernel_scratch().inputs);
  const auto parts = [](std::int64_t all, std::int64_t part, std::int64_t unit) {
    const std::int64_t count = std::max((all + part - 1) / part, std::int64_t{1});
    return std::max((all + count * unit - 1) / (count * unit) * unit, unit);
  };
  const std::int64_t depth =
      parts(p.depth, kPieceDepth, std::max(kLine / 4, model::block_of(p.format).elements));
  const std::int64_t panel = kVectors * lanes();
  const std::int64_t tokens =
      parts(p.tokens, std::max(most / depth / panel, std::int64_t{1}) * panel, panel);
  for (std::int64_t t = 0; t < p.tokens; t += tokens) {
    std::int64_t k = 0;
    do {
      const Piece piece{p,     t, std::min(tokens, p.tokens - t), k, std::min(depth, p.depth - k),
                        packed};
      pack(piece, packed);
      std::int64_t o = 0;
      for (; o + kRows <= p.outputs; o += kRows) rows_of<kRows>(piece, o);
      for (; o + 4 <= p.outputs; o += 4) rows_of<4>(piece, o);
      for (; o < p.outputs; ++o) rows_of<1>(piece, o);
      k += depth;
    } while (k < p.depth);
  }
}

}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::exec {

HWY_EXPORT(many_row_product);

void many_row_product(const WeightProduct& p) { HWY_DYNAMIC_DISPATCH(many_row_product)(p); }

}  // namespace tandem::exec
#endif
