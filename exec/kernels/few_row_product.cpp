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
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;

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
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(depth - k));
    a1 = hn::MulAdd(hn::MaskedLoad(mask, d, w + k), hn::MaskedLoad(mask, d, x + k), a1);
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
};

// y[t, r] = x[t] . w[r] for R weight rows and T tokens. With kAhead it prefetches the R rows that
// follow in memory, in their order, while it walks these.
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
      for (std::int64_t line = 0; line < R * lanes; line += kLine) prefetch(next + line);
      next += R * lanes;
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
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(p.depth - k));
    HWY_UNROLL(4)
    for (int t = 0; t < T; ++t) {
      const V in = hn::MaskedLoad(mask, d, x + t * p.x_stride + k);
      HWY_UNROLL(8)
      for (int r = 0; r < R; ++r) {
        const V weight = hn::MaskedLoad(mask, d, w + r * p.w_stride + k);
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
    for (int r = 0; r < R; ++r) p.y[t * p.y_stride + r] = sums[r];
  }
}

// The same for up to 8 tokens, in one pass or two: the second finds the weights in a cache.
template <int R>
HWY_INLINE void block(Rows p, std::int64_t tokens) {
  const auto pass = [&p]<int T, bool kAhead>() {
    dots<R, T, kAhead>(p);
    p.x += T * p.x_stride;
    p.y += T * p.y_stride;
  };
  switch (tokens) {
    case 1:
      return pass.template operator()<1, true>();
    case 2:
      return pass.template operator()<2, true>();
    case 3:
      return pass.template operator()<3, true>();
    case 4:
      return pass.template operator()<4, true>();
    case 5:
      pass.template operator()<3, true>();
      return pass.template operator()<2, false>();
    case 6:
      pass.template operator()<3, true>();
      return pass.template operator()<3, false>();
    case 7:
      pass.template operator()<4, true>();
      return pass.template operator()<3, false>();
    default:
      pass.template operator()<4, true>();
      return pass.template operator()<4, false>();
  }
}

// `tokens` of a product, R weight rows at a time; R * min(tokens, 4) sums, R weights and an input
// fit in the registers.
template <int R>
void blocks(const Product& p, std::int64_t first, std::int64_t tokens) {
  Rows rows{p.w,        p.w_stride, p.x + first * p.x_stride,
            p.x_stride, p.depth,    p.y + first * p.y_stride,
            p.y_stride};
  std::int64_t o = 0;
  const auto advance = [&](std::int64_t by) {
    o += by;
    rows.w += by * p.w_stride;
    rows.y += by;
  };
  for (; o + R <= p.outputs; advance(R)) block<R>(rows, tokens);
  for (; o + 2 <= p.outputs; advance(2)) block<2>(rows, tokens);
  for (; o < p.outputs; advance(1)) block<1>(rows, tokens);
}

void few_row_product(const Product& p) {
  static_assert(kFewRows == 8);
  // More than eight tokens in groups, for callers that did not choose.
  for (std::int64_t first = 0; first < p.tokens; first += kFewRows) {
    const std::int64_t tokens = HWY_MIN(p.tokens - first, kFewRows);
    if (tokens == 1 && p.depth <= kLongRow) {
      single(p, p.x + first * p.x_stride, p.y + first * p.y_stride);
    } else if (tokens <= 2) {
      blocks<kManyRegisters ? 8 : 4>(p, first, tokens);
    } else {
      blocks<kManyRegisters ? 6 : 3>(p, first, tokens);
    }
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
  float ups[kTurn * kFewRows];
  for (std::int64_t first = 0; first < p.tokens; first += kFewRows) {
    const std::int64_t tokens = std::min(p.tokens - first, kFewRows);
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
