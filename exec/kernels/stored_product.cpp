// Matrix times few vectors, of weights in formats other than f32: each block is decoded in
// registers and used for several tokens.

#include <cstring>

#include "exec/kernels/weight_product.hpp"
#include "model/error.hpp"

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

HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(Floats())); }

// A format is how one step of a row is read: open() what its numbers share, then vector after
// vector. `kBlock`: numbers of a step, 0: two vectors. `kBytes`: of a step with a block.
struct Halves {
  static constexpr std::int64_t kBlock = 0;
  static constexpr std::int64_t kBytes = 0;
  struct Shared {};
  static HWY_INLINE Shared open(const std::byte* /*step*/) { return {}; }
  static HWY_INLINE V at(const Shared& /*shared*/, const std::byte* step, std::int64_t v) {
    const Floats d;
    const hn::Rebind<hwy::float16_t, Floats> half;
    return hn::PromoteTo(
        d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(step) + v * lanes()));
  }
};

struct Brains {
  static constexpr std::int64_t kBlock = 0;
  static constexpr std::int64_t kBytes = 0;
  struct Shared {};
  static HWY_INLINE Shared open(const std::byte* /*step*/) { return {}; }
  static HWY_INLINE V at(const Shared& /*shared*/, const std::byte* step, std::int64_t v) {
    const Floats d;
    const hn::Rebind<hwy::bfloat16_t, Floats> half;
    return hn::PromoteTo(
        d, hn::LoadU(half, reinterpret_cast<const hwy::bfloat16_t*>(step) + v * lanes()));
  }
};

// The f16 at `p` in all lanes.
HWY_INLINE V scale_at(const std::byte* p) {
  const hn::CappedTag<float, 1> one;
  const hn::Rebind<hwy::float16_t, decltype(one)> half;
  const auto* const stored = reinterpret_cast<const hwy::float16_t*>(p);
  return hn::Set(Floats(), hn::GetLane(hn::PromoteTo(one, hn::LoadU(half, stored))));
}

struct Bytes {  // q8_0
  static constexpr std::int64_t kBlock = 32;
  static constexpr std::int64_t kBytes = 34;
  struct Shared {
    V scale;
  };
  static HWY_INLINE Shared open(const std::byte* step) { return {scale_at(step)}; }
  static HWY_INLINE V at(const Shared& shared, const std::byte* step, std::int64_t v) {
    const Floats d;
    const hn::Rebind<std::int32_t, Floats> whole;
    const hn::Rebind<std::int8_t, Floats> byte;
    const auto q = hn::LoadU(byte, reinterpret_cast<const std::int8_t*>(step + 2) + v * lanes());
    return hn::Mul(hn::ConvertTo(d, hn::PromoteTo(whole, q)), shared.scale);
  }
};

struct Nibbles {  // q4_0
  static constexpr std::int64_t kBlock = 32;
  static constexpr std::int64_t kBytes = 18;
  struct Shared {
    V scale;
  };
  static HWY_INLINE Shared open(const std::byte* step) { return {scale_at(step)}; }
  static HWY_INLINE V at(const Shared& shared, const std::byte* step, std::int64_t v) {
    const Floats d;
    const hn::Rebind<std::int32_t, Floats> whole;
    const hn::Rebind<std::uint8_t, Floats> byte;
    const std::int64_t first = v * lanes();
    const auto both = hn::PromoteTo(
        whole, hn::LoadU(byte, reinterpret_cast<const std::uint8_t*>(step + 2) + first % 16));
    const auto q = first < 16 ? hn::And(both, hn::Set(whole, 15)) : hn::ShiftRight<4>(both);
    return hn::Mul(hn::ConvertTo(d, hn::Sub(q, hn::Set(whole, 8))), shared.scale);
  }
};

template <class Format>
HWY_INLINE std::int64_t vectors_of_step() {
  return Format::kBlock == 0 ? 2 : Format::kBlock / lanes();
}
template <class Format>
HWY_INLINE std::int64_t bytes_of_step() {
  return Format::kBlock == 0 ? 4 * lanes() : Format::kBytes;
}

// Fewer than a vector of halves, in a place that may be read whole.
HWY_INLINE void copy_tail(const std::byte* from, std::int64_t count, std::byte* to) {
  std::memset(to, 0, 32);
  std::memcpy(to, from, static_cast<std::size_t>(2 * count));
}

struct Rows {
  const std::byte* w;
  std::int64_t w_stride;
  const float* x;
  std::int64_t x_stride;
  float* y;
  std::int64_t y_stride;
  std::int64_t depth;
};

// y[t, r] = x[t] . w[r] for R weight rows and T tokens. The order of addition depends on T alone.
template <class Format, int R, int T>
HWY_INLINE void dots(const Rows& p) {
  constexpr int kChains = T == 1 ? 2 : 1;
  const Floats d;
  const std::int64_t n = lanes();
  const std::int64_t vectors = vectors_of_step<Format>();
  const std::int64_t step = bytes_of_step<Format>();
  const std::int64_t numbers = vectors * n;
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
  for (; k + numbers <= p.depth; k += numbers, w += step) {
    HWY_UNROLL(4)
    for (int r = 0; r < R; ++r) {
      const std::byte* const at = w + r * p.w_stride;
      // The same place of the rows that come next, into the second-level cache.
      __builtin_prefetch(at + R * p.w_stride, 0, 2);
      const typename Format::Shared shared = Format::open(at);
      HWY_UNROLL(8)
      for (std::int64_t v = 0; v < vectors; ++v)
        use(r, static_cast<int>(v) % kChains, Format::at(shared, at, v), k + v * n);
    }
  }
  if constexpr (Format::kBlock == 0) {
    for (; k + n <= p.depth; k += n, w += 2 * n) {
      for (int r = 0; r < R; ++r) use(r, 0, Format::at({}, w + r * p.w_stride, 0), k);
    }
    if (k < p.depth) {
      const First part{p.depth - k};
      alignas(64) std::byte tail[32];
      for (int r = 0; r < R; ++r) {
        copy_tail(w + r * p.w_stride, part.n, tail);
        const V weight = Format::at({}, tail, 0);
        for (int t = 0; t < T; ++t) {
          V& sum = acc[(t * R + r) * kChains];
          sum = hn::MulAdd(weight, load(d, p.x + t * p.x_stride + k, part), sum);
        }
      }
    }
  }
  for (int t = 0; t < T; ++t) {
    for (int r = 0; r < R; ++r) {
      V sum = acc[(t * R + r) * kChains];
      if constexpr (kChains == 2) sum = hn::Add(sum, acc[(t * R + r) * kChains + 1]);
      p.y[t * p.y_stride + r] = hn::GetLane(hn::SumOfLanes(d, sum));
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

template <class Format>
void products(const WeightProduct& p) {
  constexpr int kRows = kManyRegisters ? 4 : 2;
  Rows now{.w = p.w,
           .w_stride = p.w_stride,
           .x = p.x,
           .x_stride = p.x_stride,
           .y = p.y,
           .y_stride = p.y_stride,
           .depth = p.depth};
  std::int64_t o = 0;
  for (; o + kRows <= p.outputs; o += kRows) {
    rows<Format, kRows>(now, p.tokens);
    now.w += kRows * p.w_stride;
    now.y += kRows;
  }
  for (; o < p.outputs; ++o) {
    rows<Format, 1>(now, p.tokens);
    now.w += p.w_stride;
    ++now.y;
  }
}

template <class Format>
void unpacked(const std::byte* row, std::int64_t count, float* out) {
  const Floats d;
  const std::int64_t n = lanes();
  const std::int64_t vectors = vectors_of_step<Format>();
  std::int64_t k = 0;
  for (; k + vectors * n <= count; k += vectors * n, row += bytes_of_step<Format>()) {
    const typename Format::Shared shared = Format::open(row);
    for (std::int64_t v = 0; v < vectors; ++v)
      hn::StoreU(Format::at(shared, row, v), d, out + k + v * n);
  }
  if constexpr (Format::kBlock == 0) {
    for (; k + n <= count; k += n, row += 2 * n) hn::StoreU(Format::at({}, row, 0), d, out + k);
    if (k < count) {
      alignas(64) std::byte tail[32];
      copy_tail(row, count - k, tail);
      store(Format::at({}, tail, 0), d, out + k, First{count - k});
    }
  }
}

void stored_product(const WeightProduct& p) {
  switch (p.format) {
    case model::WeightFormat::f32:
      break;
    case model::WeightFormat::f16:
      return products<Halves>(p);
    case model::WeightFormat::bf16:
      return products<Brains>(p);
    case model::WeightFormat::q8_0:
      return products<Bytes>(p);
    case model::WeightFormat::q4_0:
      return products<Nibbles>(p);
  }
  throw std::logic_error("stored_product: a format without a kernel");
}

void unpack(model::WeightFormat format, const std::byte* row, std::int64_t count, float* out) {
  switch (format) {
    case model::WeightFormat::f32:
      break;
    case model::WeightFormat::f16:
      return unpacked<Halves>(row, count, out);
    case model::WeightFormat::bf16:
      return unpacked<Brains>(row, count, out);
    case model::WeightFormat::q8_0:
      return unpacked<Bytes>(row, count, out);
    case model::WeightFormat::q4_0:
      return unpacked<Nibbles>(row, count, out);
  }
  throw std::logic_error("unpack: a format without a kernel");
}

}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::exec {

HWY_EXPORT(stored_product);
HWY_EXPORT(unpack);

void stored_product(const WeightProduct& p) {
  const std::int64_t block = model::block_of(p.format).elements;
  require(p.depth % block == 0, "stored_product: rows of whole blocks");
  HWY_DYNAMIC_DISPATCH(stored_product)(p);
}

void unpack(model::WeightFormat format, const std::byte* row, std::int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(unpack)(format, row, count, out);
}

}  // namespace tandem::exec
#endif
