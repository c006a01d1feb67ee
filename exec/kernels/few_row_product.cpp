// Matrix times few vectors: limited by memory, so each weight is fetched once, in the order the
// weights lie in memory, and used for all tokens while it is near.
// docs/decisions/0004-kernels.md has the measurements behind the choices.

#include <algorithm>

#include "exec/kernels/product.hpp"
#include "exec/kernels/weight_product.hpp"

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
// Weight rows walked together, for two tokens and for up to four at a time: with 32 registers
// or with 16.
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;
constexpr int kPairRows = kManyRegisters ? 8 : 4;
constexpr int kGroupRows = kManyRegisters ? 6 : 3;
// Tokens whose weights come in as many streams.
constexpr std::int64_t kMostStreamed = 8;

// Into the second-level cache: the first would lose what is in use.
HWY_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 2); }

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

// Where a product's results go, and what it reads; strides as in Product.
struct Rows {
  const float* w;
  std::int64_t w_stride;
  const float* x;
  std::int64_t x_stride;
  std::int64_t depth;
  float* y;
  std::int64_t y_stride;
  std::int64_t y_step;     // between the results of weight rows
  const float* next;       // weights to prefetch
  std::int64_t next_line;  // floats between the lines that one step prefetches
  std::int64_t next_step;  // and between the steps
  // Sums that wait between pieces of the depth, and whether this is the first piece or the last.
  float* kept = nullptr;
  bool first = true;
  bool last = true;
};

// y[t, r] = x[t] . w[r] for R weight rows and T tokens, or with kPieces a part of that sum. It
// prefetches kNext lines while it walks a line of each row.
template <int R, int T, int kNext, bool kPieces>
HWY_INLINE void dots(const Rows& p) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float* HWY_RESTRICT w = p.w;
  const float* HWY_RESTRICT x = p.x;
  V acc[R * T];
  if (!kPieces || p.first) {
    HWY_UNROLL(32)
    for (int i = 0; i < R * T; ++i) acc[i] = hn::Zero(d);
  } else {
    HWY_UNROLL(32)
    for (int i = 0; i < R * T; ++i) acc[i] = hn::LoadU(d, p.kept + i * lanes);
  }
  const float* next = p.next;
  std::int64_t k = 0;
  for (; k + lanes <= p.depth; k += lanes) {
    if (kNext > 0 && (lanes == kLine || k % kLine == 0)) {
      HWY_UNROLL(8)
      for (std::int64_t line = 0; line < kNext; ++line) prefetch(next + line * p.next_line);
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
  if (kPieces && !p.last) {
    HWY_UNROLL(32)
    for (int i = 0; i < R * T; ++i) hn::StoreU(acc[i], d, p.kept + i * lanes);
    return;
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
    for (int r = 0; r < R; ++r) y[r * p.y_step] = sums[r];
  }
}

// The same for any number of tokens, four or fewer at a time: all but the first find the weights in
// a cache.
template <int R>
HWY_INLINE void block(Rows p, std::int64_t tokens) {
  const auto pass = [&p, &tokens]<int T, int kNext>() {
    dots<R, T, kNext, false>(p);
    p.x += T * p.x_stride;
    p.y += T * p.y_stride;
    tokens -= T;
  };
  if (tokens == 1) return pass.template operator()<1, R>();
  if (tokens == 2) return pass.template operator()<2, R>();
  if (tokens == 3 || tokens == 5 || tokens == 6) {
    pass.template operator()<3, R>();
  } else {
    pass.template operator()<4, R>();
  }
  while (tokens >= 7 || tokens == 4) pass.template operator()<4, 0>();
  while (tokens >= 3) pass.template operator()<3, 0>();  // 5 = 3 + 2, 6 = 3 + 3
  if (tokens == 2) pass.template operator()<2, 0>();
  if (tokens == 1) pass.template operator()<1, 0>();
}

// All tokens of a product, R weight rows at a time; R * min(tokens, 4) sums, R weights and an input
// fit in the registers.
template <int R>
void blocks(const Product& p) {
  // Rows that follow each other without a gap are one stretch of memory.
  const bool gapless = p.w_stride == p.depth;
  Rows rows{.w = p.w,
            .w_stride = p.w_stride,
            .x = p.x,
            .x_stride = p.x_stride,
            .depth = p.depth,
            .y = p.y,
            .y_stride = p.y_stride,
            .y_step = 1,
            .next = p.w,
            .next_line = gapless ? kLine : p.w_stride,
            .next_step = kLine};
  std::int64_t o = 0;
  const auto advance = [&](std::int64_t by) {
    o += by;
    rows.w += by * p.w_stride;
    rows.y += by;
  };
  const auto each = [&]<int N>() {
    rows.next_step = gapless ? N * kLine : kLine;
    for (; o + N <= p.outputs; advance(N)) {
      rows.next = rows.w + N * p.w_stride;
      block<N>(rows, p.tokens);
    }
  };
  each.template operator()<R>();
  each.template operator()<2>();
  each.template operator()<1>();
}

// Two tokens with AVX2: R long streams, as for one token (stored_product.cpp), prefetched a little
// ahead.
template <int R>
void pair_streams(const Product& p) {
  constexpr std::int64_t kAhead = 4 * kLine;
  const std::int64_t rows = p.outputs / R;
  for (std::int64_t o = 0; o < rows; ++o) {
    const float* const w = p.w + o * p.w_stride;
    dots<R, 2, R, false>({.w = w,
                          .w_stride = rows * p.w_stride,
                          .x = p.x,
                          .x_stride = p.x_stride,
                          .depth = p.depth,
                          .y = p.y + o,
                          .y_stride = p.y_stride,
                          .y_step = rows,
                          .next = w + kAhead,
                          .next_line = rows * p.w_stride,
                          .next_step = kLine});
  }
  if (rows * R < p.outputs) blocks<R>(p.slice(rows * R, p.outputs));
}

// A piece of the depth for up to kMostStreamed tokens, in one pass or two. Each pass prefetches its
// part of the R lines: were it all in the first, the memory would rest during the second.
template <int R>
HWY_INLINE void piece(Rows p, std::int64_t tokens) {
  constexpr int kHalf = (R + 1) / 2;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  const auto pass = [&]<int T, int kNext>() {
    dots<R, T, kNext, true>(p);
    p.x += T * p.x_stride;
    p.y += T * p.y_stride;
    p.next += kNext * p.next_line;
    p.kept += lanes * R * T;
  };
  if (tokens == 3) return pass.template operator()<3, R>();
  if (tokens == 4) return pass.template operator()<4, R>();
  if (tokens < 7) {
    pass.template operator()<3, kHalf>();
  } else {
    pass.template operator()<4, kHalf>();
  }
  if (tokens == 5) return pass.template operator()<2, R - kHalf>();
  if (tokens == 8) return pass.template operator()<4, R - kHalf>();
  pass.template operator()<3, R - kHalf>();
}

// Three to eight tokens. The weights come as R streams, each an R-th of the rows, so that each is
// long and in the order of memory. The depth is walked in pieces whose inputs stay in the
// first-level cache while both passes use the weights; meanwhile the piece after it is prefetched.
// Sums wait between pieces as vectors, so that the order of addition is that of the whole depth.
template <int R>
void streams(const Product& p) {
  constexpr std::int64_t kPiece = 384;
  HWY_ALIGN float kept[static_cast<std::size_t>(R * kMostStreamed) * hn::MaxLanes(Floats())];
  const std::int64_t rows = p.outputs / R;
  const std::int64_t pieces = HWY_MAX((p.depth + kPiece - 1) / kPiece, std::int64_t{1});
  const std::int64_t depth = (p.depth + pieces * kLine - 1) / (pieces * kLine) * kLine;
  for (std::int64_t o = 0; o < rows; ++o) {
    const float* w = p.w + o * p.w_stride;
    std::int64_t k = 0;
    do {
      const bool last = k + depth >= p.depth;
      piece<R>({.w = w + k,
                .w_stride = rows * p.w_stride,
                .x = p.x + k,
                .x_stride = p.x_stride,
                .depth = last ? p.depth - k : depth,
                .y = p.y + o,
                .y_stride = p.y_stride,
                .y_step = rows,
                .next = last ? w + p.w_stride : w + k + depth,
                .next_line = rows * p.w_stride,
                .next_step = kLine,
                .kept = kept,
                .first = k == 0,
                .last = last},
               p.tokens);
      k += depth;
    } while (k < p.depth);
  }
  if (rows * R < p.outputs) {
    blocks<R>(p.slice(rows * R, p.outputs));
  }
}

void few_row_product(const Product& p) {
  if (p.tokens == 2)
    return HWY_TARGET == HWY_AVX2 ? pair_streams<kPairRows>(p) : blocks<kPairRows>(p);
  streams<kGroupRows>(p);
}

}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::exec {

HWY_EXPORT(few_row_product);

void few_row_product(const Product& p) {
  if (p.tokens > 1) return HWY_DYNAMIC_DISPATCH(few_row_product)(p);
  constexpr std::int64_t kBytes = sizeof(float);
  stored_product({.x = p.x,
                  .x_stride = p.x_stride,
                  .w = reinterpret_cast<const std::byte*>(p.w),
                  .w_stride = kBytes * p.w_stride,
                  .format = model::WeightFormat::f32,
                  .y = p.y,
                  .y_stride = p.y_stride,
                  .tokens = p.tokens,
                  .outputs = p.outputs,
                  .depth = p.depth});
}

}  // namespace tandem::exec
#endif
