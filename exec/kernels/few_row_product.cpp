// Matrix times few vectors: limited by memory, so several weight rows are walked at once (a core
// keeps more cache lines in flight) and each is used for all tokens while it is near.

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
using Floats = hn::ScalableTag<float>;
using V = hn::Vec<Floats>;

// Accumulators (weight rows times tokens) that fit in the registers beside the operands.
constexpr int kTokens = HWY_TARGET <= HWY_AVX3 ? 4 : 2;

// sums[r * T + t] = x[t] . w[r], R weight rows and T tokens.
template <int R, int T>
HWY_INLINE void dots(const float* HWY_RESTRICT const* rows, const float* HWY_RESTRICT x,
                     std::int64_t x_stride, std::int64_t depth, float* HWY_RESTRICT sums) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V acc[R * T];
  for (int i = 0; i < R * T; ++i) acc[i] = hn::Zero(d);
  std::int64_t k = 0;
  for (; k + lanes <= depth; k += lanes) {
    V in[T];
    for (int t = 0; t < T; ++t) in[t] = hn::LoadU(d, x + t * x_stride + k);
    for (int r = 0; r < R; ++r) {
      const V weight = hn::LoadU(d, rows[r] + k);
      for (int t = 0; t < T; ++t) acc[r * T + t] = hn::MulAdd(weight, in[t], acc[r * T + t]);
    }
  }
  if (k < depth) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(depth - k));
    for (int r = 0; r < R; ++r) {
      const V weight = hn::MaskedLoad(mask, d, rows[r] + k);
      for (int t = 0; t < T; ++t) {
        acc[r * T + t] =
            hn::MulAdd(weight, hn::MaskedLoad(mask, d, x + t * x_stride + k), acc[r * T + t]);
      }
    }
  }
  for (int i = 0; i < R * T; ++i) sums[i] = hn::GetLane(hn::SumOfLanes(d, acc[i]));
}

template <int R>
HWY_INLINE void block(const Product& p, const float* HWY_RESTRICT const* rows, std::int64_t first,
                      std::int64_t tokens, float* HWY_RESTRICT sums) {
  const float* x = p.x + first * p.x_stride;
  static_assert(kTokens == 4 || kTokens == 2);
  if constexpr (kTokens == 4) {
    if (tokens == 4) return dots<R, 4>(rows, x, p.x_stride, p.depth, sums);
    if (tokens == 3) return dots<R, 3>(rows, x, p.x_stride, p.depth, sums);
  }
  if (tokens == 2) return dots<R, 2>(rows, x, p.x_stride, p.depth, sums);
  dots<R, 1>(rows, x, p.x_stride, p.depth, sums);
}

template <int R>
void outputs(const Product& p, std::int64_t begin) {
  const float* rows[R];
  for (int r = 0; r < R; ++r) rows[r] = p.w + (begin + r) * p.w_stride;
  float sums[R * kTokens];
  for (std::int64_t first = 0; first < p.tokens; first += kTokens) {
    const std::int64_t tokens = HWY_MIN(p.tokens - first, kTokens);
    block<R>(p, rows, first, tokens, sums);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (int r = 0; r < R; ++r) p.y[(first + t) * p.y_stride + begin + r] = sums[r * tokens + t];
    }
  }
}

void few_row_product(const Product& p) {
  std::int64_t o = 0;
  if (p.tokens == 1) {
    for (; o + 8 <= p.outputs; o += 8) outputs<8>(p, o);
  }
  for (; o + 4 <= p.outputs; o += 4) outputs<4>(p, o);
  for (; o < p.outputs; ++o) outputs<1>(p, o);
}

template <int R>
void gated_outputs(const Product& p, const float* up, std::int64_t begin) {
  const float* rows[2 * R];
  for (int r = 0; r < R; ++r) {
    rows[r] = p.w + (begin + r) * p.w_stride;
    rows[R + r] = up + (begin + r) * p.w_stride;
  }
  float sums[2 * R * kTokens];
  for (std::int64_t first = 0; first < p.tokens; first += kTokens) {
    const std::int64_t tokens = HWY_MIN(p.tokens - first, kTokens);
    block<2 * R>(p, rows, first, tokens, sums);
    for (std::int64_t t = 0; t < tokens; ++t) {
      float* y = p.y + (first + t) * p.y_stride + begin;
      float ups[R];
      for (int r = 0; r < R; ++r) {
        y[r] = sums[r * tokens + t];
        ups[r] = sums[(R + r) * tokens + t];
      }
      gate_with(ups, R, y);
    }
  }
}

void few_row_gated_product(const Product& p, const float* up) {
  std::int64_t o = 0;
  if (p.tokens == 1) {
    for (; o + 4 <= p.outputs; o += 4) gated_outputs<4>(p, up, o);
  }
  for (; o + 2 <= p.outputs; o += 2) gated_outputs<2>(p, up, o);
  for (; o < p.outputs; ++o) gated_outputs<1>(p, up, o);
}

}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::exec {

HWY_EXPORT(few_row_product);
HWY_EXPORT(few_row_gated_product);

void few_row_product(const Product& p) { HWY_DYNAMIC_DISPATCH(few_row_product)(p); }
void few_row_gated_product(const Product& p, const float* up) {
  HWY_DYNAMIC_DISPATCH(few_row_gated_product)(p, up);
}

}  // namespace tandem::exec
#endif
