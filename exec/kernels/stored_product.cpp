// Matrix times few vectors, of weights that are floats of some width: each vector of them is
// widened in registers and used for several tokens.

#include <cstring>
#include <stdexcept>

#include "exec/kernels/weight_product.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/stored_product.cpp"
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

constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;
constexpr bool kFewInStreams = HWY_TARGET == HWY_AVX2;
constexpr std::int64_t kLine = 64;  // bytes

HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(Floats())); }

// How a format's vectors are read, and how many streams of memory one token's product is. Fastest
// or as fast, by measurement (docs/decisions/0004-kernels.md).
struct Singles {
  static constexpr std::int64_t kBytes = 4;
  static constexpr int kStreams = 4;
  static HWY_INLINE V at(const std::byte* from, std::int64_t v) {
    return hn::LoadU(Floats(), reinterpret_cast<const float*>(from) + v * lanes());
  }
};

struct Halves {
  static constexpr std::int64_t kBytes = 2;
  static constexpr int kStreams = 2;
  static HWY_INLINE V at(const std::byte* from, std::int64_t v) {
    const Floats d;
    const hn::Rebind<hwy::float16_t, Floats> half;
    return hn::PromoteTo(
        d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from) + v * lanes()));
  }
};

struct Brains {
  static constexpr std::int64_t kBytes = 2;
  static constexpr int kStreams = 2;
  static HWY_INLINE V at(const std::byte* from, std::int64_t v) {
    const Floats d;
    const hn::Rebind<hwy::bfloat16_t, Floats> half;
    return hn::PromoteTo(
        d, hn::LoadU(half, reinterpret_cast<const hwy::bfloat16_t*>(from) + v * lanes()));
  }
};

// Fewer than a vector of numbers, in a place that may be read whole.
constexpr std::size_t kMostVectorBytes = 64;
template <class Format>
HWY_INLINE void copy_tail(const std::byte* from, std::int64_t count, std::byte* to) {
  std::memset(to, 0, kMostVectorBytes);
  std::memcpy(to, from, static_cast<std::size_t>(Format::kBytes * count));
}

struct Rows {
  const std::byte* w;
  std::int64_t w_stride;
  const float* x;
  std::int64_t x_stride;
  float* y;
  std::int64_t y_stride;
  std::int64_t y_step;  // between the results of weight rows
  std::int64_t ahead;   // bytes from what is read of a row to what is prefetched
  std::int64_t depth;
};

// y[t, r] = x[t] . w[r] for R weight rows and T tokens. The order of addition depends on T alone.
template <class Format, int R, int T>
HWY_INLINE void dots(const Rows& p) {
  constexpr int kChains = T == 1 ? 2 : 1;
  const Floats d;
  const std::int64_t n = lanes();
  constexpr std::int64_t kVectors = 2;  // a step
  const std::int64_t numbers = kVectors * n;
  const std::int64_t bytes = Format::kBytes * numbers;
  V acc[R * T * kChains];
  HWY_UNROLL(32)
  for (int i = 0; i < R * T * kChains; ++i) acc[i] = hn::Zero(d);
  const auto use = [&](int r, int chain, V weight, std::int64_t k) HWY_ATTR {
    HWY_UNROLL(8)
    for (int t = 0; t < T; ++t) {
      V& sum = acc[(t * R + r) * kChains + chain];
      sum = hn::MulAdd(weight, hn::LoadU(d, p.x + t * p.x_stride + k), sum);
    }
  };
  const std::byte* w = p.w;
  std::int64_t k = 0;
  for (; k + numbers <= p.depth; k += numbers, w += bytes) {
    HWY_UNROLL(4)
    for (int r = 0; r < R; ++r) {
      const std::byte* const at = w + r * p.w_stride;
      // Into the first-level cache, unless several tokens' inputs fill it.
      for (std::int64_t line = 0; line < bytes; line += kLine)
        __builtin_prefetch(at + p.ahead + line, 0, T == 1 ? 3 : 2);
      HWY_UNROLL(2)
      for (std::int64_t v = 0; v < kVectors; ++v)
        use(r, static_cast<int>(v) % kChains, Format::at(at, v), k + v * n);
    }
  }
  for (; k + n <= p.depth; k += n, w += Format::kBytes * n) {
    for (int r = 0; r < R; ++r) use(r, 0, Format::at(w + r * p.w_stride, 0), k);
  }
  if (k < p.depth) {
    const First part{p.depth - k};
    alignas(64) std::byte tail[kMostVectorBytes];
    for (int r = 0; r < R; ++r) {
      copy_tail<Format>(w + r * p.w_stride, part.n, tail);
      const V weight = Format::at(tail, 0);
      for (int t = 0; t < T; ++t) {
        V& sum = acc[(t * R + r) * kChains];
        sum = hn::MulAdd(weight, load(d, p.x + t * p.x_stride + k, part), sum);
      }
    }
  }
  for (int t = 0; t < T; ++t) {
    for (int r = 0; r < R; ++r) {
      V sum = acc[(t * R + r) * kChains];
      if constexpr (kChains == 2) sum = hn::Add(sum, acc[(t * R + r) * kChains + 1]);
      p.y[t * p.y_stride + r * p.y_step] = hn::GetLane(hn::SumOfLanes(d, sum));
    }
  }
}

template <class Format, int R>
HWY_INLINE void rows(Rows p, std::int64_t tokens) {
  const auto pass = [&p]<int T>() {
    dots<Format, R, T>(p);
    p.x += T * p.x_stride;
    p.y += T * p.y_stride;
  };
  for (; tokens >= 4; tokens -= 4) pass.template operator()<4>();
  if (tokens >= 2) pass.template operator()<2>();
  if (tokens % 2 == 1) pass.template operator()<1>();
}

// The product by groups of R rows, `apart` from each other, so that `groups` of them begin with
// neighbouring rows; `ahead` as in Rows. What is left is done row by row.
template <class Format, int R>
HWY_INLINE void groups_of(const WeightProduct& p, std::int64_t groups, std::int64_t apart,
                          std::int64_t ahead) {
  const std::int64_t step = apart == 1 ? R : 1;  // from a group to the next
  Rows now{.w = p.w,
           .w_stride = apart * p.w_stride,
           .x = p.x,
           .x_stride = p.x_stride,
           .y = p.y,
           .y_stride = p.y_stride,
           .y_step = apart,
           .ahead = ahead,
           .depth = p.depth};
  for (std::int64_t group = 0; group < groups; ++group) {
    rows<Format, R>(now, p.tokens);
    now.w += step * p.w_stride;
    now.y += step;
  }
  for (std::int64_t o = R * groups; o < p.outputs; ++o) {
    now.w = p.w + o * p.w_stride;
    now.y = p.y + o;
    rows<Format, 1>(now, p.tokens);
  }
}

template <class Format>
void products(const WeightProduct& p) {
  constexpr std::int64_t kAhead = 256;
  constexpr int kRows = kManyRegisters ? 4 : 2;
  // One token waits for memory: long streams in its order, which processors fetch ahead.
  constexpr int kStreams = Format::kStreams;
  if (p.tokens == 1)
    return groups_of<Format, kStreams>(p, p.outputs / kStreams, p.outputs / kStreams, kAhead);
  // So do several with AVX2: of as many rows as their sums leave registers for.
  if (kFewInStreams && p.tokens < 4)
    return groups_of<Format, 4>(p, p.outputs / 4, p.outputs / 4, kAhead);
  if (kFewInStreams) return groups_of<Format, 3>(p, p.outputs / 3, p.outputs / 3, kAhead);
  // Elsewhere the same place of the rows that come next.
  groups_of<Format, kRows>(p, p.outputs / kRows, 1, kRows * p.w_stride);
}

template <class Format>
void unpacked(const std::byte* row, std::int64_t count, float* out) {
  const Floats d;
  const std::int64_t n = lanes();
  std::int64_t k = 0;
  for (; k + n <= count; k += n, row += Format::kBytes * n)
    hn::StoreU(Format::at(row, 0), d, out + k);
  if (k < count) {
    alignas(64) std::byte tail[kMostVectorBytes];
    copy_tail<Format>(row, count - k, tail);
    store(Format::at(tail, 0), d, out + k, First{count - k});
  }
}

void stored_product(const WeightProduct& p) {
  if (p.format == model::WeightFormat::f32) return products<Singles>(p);
  if (p.format == model::WeightFormat::f16) return products<Halves>(p);
  if (p.format == model::WeightFormat::bf16) return products<Brains>(p);
  throw std::logic_error("stored_product: a format without a kernel");
}

void unpack(model::WeightFormat format, const std::byte* row, std::int64_t count, float* out) {
  if (format == model::WeightFormat::f16) return unpacked<Halves>(row, count, out);
  if (format == model::WeightFormat::bf16) return unpacked<Brains>(row, count, out);
  throw std::logic_error("unpack: a format without a kernel");
}

}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::exec {

HWY_EXPORT(stored_product);
HWY_EXPORT(unpack);

void stored_product(const WeightProduct& p) { HWY_DYNAMIC_DISPATCH(stored_product)(p); }

void unpack(model::WeightFormat format, const std::byte* row, std::int64_t count, float* out) {
  if (model::block_of(format).elements > 1) return unpack_blocks(format, row, count, out);
  HWY_DYNAMIC_DISPATCH(unpack)(format, row, count, out);
}

}  // namespace tandem::exec
#endif
