// Matrix times few vectors: limited by memory, so each weight is fetched once, in the order the
// weights lie in memory, and used for all tokens while it is near.
// docs/decisions/0004-kernels.md has the measurements behind the choices.

#include <algorithm>

#include "exec/kernels/product.hpp"
#include "exec/kernels/rowwise.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/few_row_product.cpp"
#include "exec/kernels/targets.hpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "exec/kernels/partial-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::exec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;
using V = hn::Vec<Floats>;

constexpr std::int64_t kLine = 64 / sizeof(float);
// Row by row is fastest while the input stays in the first-level cache beside the weights.
constexpr std::int64_t kLongRow = 3072;
// Weight rows walked together, for up to two tokens and for up to four at a time: with 32 registers
// or with 16.
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;
constexpr int kPairRows = kManyRegisters ? 8 : 4;
constexpr int kGroupRows = kManyRegisters ? 6 : 3;

// Into the second-level cache: the first would lose what is in use.
HWY_INLINE void prefetch(const float* p) { __builtin_prefetch(p, 0, 2); }

// Sums of the lanes of four vectors; the same order of addition for each.
HWY_INLINE void store_sums(const V* v, float* HWY_RESTRICT sums) {
  const Floats d;
#if HWY_HAVE_SCALABLE || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  for (int i = 0; i < 4; ++i) sums[i] = hn::GetLane(hn::SumOfLanes(d, v[i]));
#else
  // Within blocks of 4 lanes: [a b a b], [c d c d], then [a b c d]; then the blocks.
  const hn::Repartition<double, Floats> pairs;
  const V ab = hn::Add(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1]));
  const V cd = hn::Add(hn::InterleaveLower(d, v[2], v[3]), hn::InterleaveUpper(d, v[2], v[3]));
  const auto ab2 = hn::BitCast(pairs, ab);
  const auto cd2 = hn::BitCast(pairs, cd);
  const V abcd = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab2, cd2)),
                         hn::BitCast(d, hn::InterleaveUpper(pairs, ab2, cd2)));
#if HWY_MAX_BYTES == 64
  const hn::Half<Floats> half;
  const hn::Half<decltype(half)> quarter;
  const auto low = hn::Add(hn::LowerHalf(half, abcd), hn::UpperHalf(half, abcd));
  hn::StoreU(hn::Add(hn::LowerHalf(quarter, low), hn::UpperHalf(quarter, low)), quarter, sums);
#elif HWY_MAX_BYTES == 32
  const hn::Half<Floats> half;
  hn::StoreU(hn::Add(hn::LowerHalf(half, abcd), hn::UpperHalf(half, abcd)), half, sums);
#else
  hn::StoreU(abcd, d, sums);
#endif
#endif
}

// Lanes add up to x . w; one stream through memory.
HWY_INLINE V single_dot(const float* HWY_RESTRICT w, const float* HWY_RESTRICT x,
                        std::int64_t depth) {
  constexpr std::int64_t kAhead = 256;  // floats
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V a0 = hn::Zero(d);
  V a1 = a0;
  V a2 = a0;
  V a3 = a0;
  std::int64_t k = 0;
  for (; k + 4 * lanes <= depth; k += 4 * lanes) {
    for (std::int64_t line = 0; line < 4 * lanes; line += kLine) prefetch(w + k + line + kAhead);
    a0 = hn::MulAdd(hn::LoadU(d, w + k), hn::LoadU(d, x + k), a0);
    a1 = hn::MulAdd(hn::LoadU(d, w + k + lanes), hn::LoadU(d, x + k + lanes), a1);
    a2 = hn::MulAdd(hn::LoadU(d, w + k + 2 * lanes), hn::LoadU(d, x + k + 2 * lanes), a2);
    a3 = hn::MulAdd(hn::LoadU(d, w + k + 3 * lanes), hn::LoadU(d, x + k + 3 * lanes), a3);
  }
  for (; k + lanes <= depth; k += lanes) {
    a0 = hn::MulAdd(hn::LoadU(d, w + k), hn::LoadU(d, x + k), a0);
  }
  if (k < depth) {
    const First part{depth - k};
    a1 = hn::MulAdd(load(d, w + k, part), load(d, x + k, part), a1);
  }
  return hn::Add(hn::Add(a0, a1), hn::Add(a2, a3));
}

// y[o] = x . w[o] for one token.
void single(const Product& p, const float* HWY_RESTRICT x, float* HWY_RESTRICT y) {
  const Floats d;
  for (std::int64_t o = 0; o < p.outputs; o += 4) {
    const std::int64_t count = HWY_MIN(p.outputs - o, 4);
    V v[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (std::int64_t i = 0; i < count; ++i) {
      v[i] = single_dot(p.w + (o + i) * p.w_stride, x, p.depth);
    }
    if (count == 4) {
      store_sums(v, y + o);
    } else {
      float sums[4];
      store_sums(v, sums);
      for (std::int64_t i = 0; i < count; ++i) y[o + i] = sums[i];
    }
  }
}

// Where a product's results go, and what it reads; strides as in Product.
struct Rows {
  const float* w;
  std::int64_t w_stride;
  const float* x;
  std::int64_t x_stride;
  std::int64_t depth;
  float* y;
  std::int64_t y_stride;
  bool add;                // to what y holds
  std::int64_t next_line;  // floats between the lines that one step prefetches
  std::int64_t next_step;  // and between the steps
};

// y[t, r] = x[t] . w[r] for R weight rows and T tokens. With kAhead it prefetches the R rows that
// come next while it walks these, in the order of memory.
template <int R, int T, bool kAhead>
HWY_INLINE void dots(const Rows& p) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float* HWY_RESTRICT w = p.w;
  const float* HWY_RESTRICT x = p.x;
  V acc[R * T];
  HWY_UNROLL(32)
  for (int i = 0; i < R * T; ++i) acc[i] = hn::Zero(d);
  const float* next = w + R * p.w_stride;
  std::int64_t k = 0;
  for (; k + lanes <= p.depth; k += lanes) {
    if constexpr (kAhead) {
      HWY_UNROLL(8)
      for (std::int64_t line = 0; line < R * lanes / kLine; ++line) {
        prefetch(next + line * p.next_line);
      }
      next += p.next_step;
    }
    V weight[R];
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) weight[r] = hn::LoadU(d, w + r * p.w_stride + k);
    HWY_UNROLL(4)
    for (int t = 0; t < T; ++t) {
      const V in = hn::LoadU(d, x + t * p.x_stride + k);
      HWY_UNROLL(8)
      for (int r = 0; r < R; ++r) acc[t * R + r] = hn::MulAdd(weight[r], in, acc[t * R + r]);
    }
  }
  if (k < p.depth) {
    const First part{p.depth - k};
    HWY_UNROLL(4)
    for (int t = 0; t < T; ++t) {
      const V in = load(d, x + t * p.x_stride + k, part);
      HWY_UNROLL(8)
      for (int r = 0; r < R; ++r) {
        const V weight = load(d, w + r * p.w_stride + k, part);
        acc[t * R + r] = hn::MulAdd(weight, in, acc[t * R + r]);
      }
    }
  }
  HWY_UNROLL(4)
  for (int t = 0; t < T; ++t) {
    float sums[(R + 3) / 4 * 4];
    HWY_UNROLL(2)
    for (int r = 0; r < R; r += 4) {
      V four[4];
      HWY_UNROLL(4)
      for (int i = 0; i < 4; ++i) four[i] = r + i < R ? acc[t * R + r + i] : hn::Zero(d);
      store_sums(four, sums + r);
    }
    float* y = p.y + t * p.y_stride;
    for (int r = 0; r < R; ++r) y[r] = p.add ? y[r] + sums[r] : sums[r];
  }
}

// The same for any number of tokens, four or fewer at a time: all but the first find the weights in
// a cache.
template <int R>
HWY_INLINE void block(Rows p, std::int64_t tokens) {
  const auto pass = [&p, &tokens]<int T, bool kAhead>() {
    dots<R, T, kAhead>(p);
    p.x += T * p.x_stride;
    p.y += T * p.y_stride;
    tokens -= T;
  };
  if (tokens == 1) return pass.template operator()<1, true>();
  if (tokens == 2) return pass.template operator()<2, true>();
  if (tokens == 3 || tokens == 5 || tokens == 6) {
    pass.template operator()<3, true>();
  } else {
    pass.template operator()<4, true>();
  }
  while (tokens >= 7 || tokens == 4) pass.template operator()<4, false>();
  while (tokens >= 3) pass.template operator()<3, false>();  // 5 = 3 + 2, 6 = 3 + 3
  if (tokens == 2) pass.template operator()<2, false>();
  if (tokens == 1) pass.template operator()<1, false>();
}

// `tokens` of a product, R weight rows at a time; R * min(tokens, 4) sums, R weights and an input
// fit in the registers.
template <int R>
void blocks(const Product& p, bool add) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  // Rows that follow each other without a gap are one stretch of memory.
  const bool gapless = p.w_stride == p.depth;
  Rows rows{.w = p.w,
            .w_stride = p.w_stride,
            .x = p.x,
            .x_stride = p.x_stride,
            .depth = p.depth,
            .y = p.y,
            .y_stride = p.y_stride,
            .add = add,
            .next_line = gapless ? kLine : p.w_stride,
            .next_step = gapless ? R * lanes : lanes};
  std::int64_t o = 0;
  const auto advance = [&](std::int64_t by) {
    o += by;
    rows.w += by * p.w_stride;
    rows.y += by;
  };
  for (; o + R <= p.outputs; advance(R)) block<R>(rows, p.tokens);
  for (; o + 2 <= p.outputs; advance(2)) block<2>(rows, p.tokens);
  for (; o < p.outputs; advance(1)) block<1>(rows, p.tokens);
}

void few_row_product(const Product& p) {
  if (p.tokens == 0) return;
  if (p.tokens == 1 && p.depth <= kLongRow) return single(p, p.x, p.y);
  if (p.tokens <= 2) return blocks<kPairRows>(p, false);
  // Pieces whose inputs stay in the second-level cache while all weights pass.
  constexpr std::int64_t kInputs = std::int64_t{64} * 1024;
  const std::int64_t depth = p.tokens > 8 && p.depth > kLongRow ? 2048 : p.depth;
  const std::int64_t tokens =
      HWY_MAX(std::int64_t{8}, kInputs / HWY_MAX(depth, std::int64_t{1}) / 4 * 4);
  for (std::int64_t t = 0; t < p.tokens; t += tokens) {
    std::int64_t k = 0;
    do {
      Product piece = p;
      piece.tokens = HWY_MIN(tokens, p.tokens - t);
      piece.depth = HWY_MIN(depth, p.depth - k);
      piece.x += t * p.x_stride + k;
      piece.y += t * p.y_stride;
      piece.w += k;
      blocks<kGroupRows>(piece, k > 0);
      k += depth;
    } while (k < p.depth);
  }
}

}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::exec {

HWY_EXPORT(few_row_product);

void few_row_product(const Product& p) { HWY_DYNAMIC_DISPATCH(few_row_product)(p); }

void few_row_gated_product(const Product& p, const float* up) {
  // Turns of this many outputs, so that each of the two matrices is read in long stretches.
  constexpr std::int64_t kTurn = 32;
  float ups[kTurn * kGatedRows];
  for (std::int64_t first = 0; first < p.tokens; first += kGatedRows) {
    const std::int64_t tokens = std::min(p.tokens - first, kGatedRows);
    for (std::int64_t o = 0; o < p.outputs; o += kTurn) {
      Product gate = p.part(o, std::min(o + kTurn, p.outputs));
      gate.x += first * p.x_stride;
      gate.y += first * p.y_stride;
      gate.tokens = tokens;
      Product other = gate;
      other.w = up + o * p.w_stride;
      other.y = ups;
      other.y_stride = kTurn;
      few_row_product(gate);
      few_row_product(other);
      for (std::int64_t t = 0; t < tokens; ++t) {
        gate_with(ups + t * kTurn, gate.outputs, gate.y + t * gate.y_stride);
      }
    }
  }
}

}  // namespace tandem::exec
#endif
