#include "exec/kernels/rowwise.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/rowwise.cpp"
#include "exec/kernels/targets.hpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
// clang-format on

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace tandem::exec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Mask = hn::Mask<Floats>;

// Calls body(i, mask) for every vector of [0, n); the mask is full except for the last.
template <class Body>
HWY_INLINE void for_vectors(std::int64_t n, const Body& body) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Mask full = hn::FirstN(d, static_cast<std::size_t>(lanes));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, full);
  if (i < n) body(i, hn::FirstN(d, static_cast<std::size_t>(n - i)));
}

void rms_norm(const float* HWY_RESTRICT x, const float* HWY_RESTRICT weight, std::int64_t n,
              float epsilon, float* HWY_RESTRICT y) {
  const Floats d;
  auto squares = hn::Zero(d);
  for_vectors(n, [&](std::int64_t i, Mask mask) {
    const auto v = hn::MaskedLoad(mask, d, x + i);
    squares = hn::MulAdd(v, v, squares);
  });
  const float mean = hn::GetLane(hn::SumOfLanes(d, squares)) / static_cast<float>(n);
  const auto scale = hn::Set(d, 1.0F / std::sqrt(mean + epsilon));
  for_vectors(n, [&](std::int64_t i, Mask mask) {
    const auto v = hn::Mul(hn::MaskedLoad(mask, d, x + i), scale);
    hn::BlendedStore(hn::Mul(v, hn::MaskedLoad(mask, d, weight + i)), mask, d, y + i);
  });
}

void add(const float* x, std::int64_t n, float* y) {
  const Floats d;
  for_vectors(n, [&](std::int64_t i, Mask mask) {
    const auto sum = hn::Add(hn::MaskedLoad(mask, d, y + i), hn::MaskedLoad(mask, d, x + i));
    hn::BlendedStore(sum, mask, d, y + i);
  });
}

void gate_with(const float* HWY_RESTRICT up, std::int64_t n, float* HWY_RESTRICT gate) {
  const Floats d;
  const auto one = hn::Set(d, 1.0F);
  for_vectors(n, [&](std::int64_t i, Mask mask) {
    const auto z = hn::MaskedLoad(mask, d, gate + i);
    // Exp is defined up to 104.
    const auto e = hn::Exp(d, hn::Min(hn::Neg(z), hn::Set(d, 88.0F)));
    const auto silu = hn::Div(z, hn::Add(one, e));
    hn::BlendedStore(hn::Mul(silu, hn::MaskedLoad(mask, d, up + i)), mask, d, gate + i);
  });
}

void rotate(const float* HWY_RESTRICT cosine, const float* HWY_RESTRICT sine, std::int64_t half,
            float* HWY_RESTRICT x) {
  const Floats d;
  for_vectors(half, [&](std::int64_t i, Mask mask) {
    const auto c = hn::MaskedLoad(mask, d, cosine + i);
    const auto s = hn::MaskedLoad(mask, d, sine + i);
    const auto a = hn::MaskedLoad(mask, d, x + i);
    const auto b = hn::MaskedLoad(mask, d, x + half + i);
    hn::BlendedStore(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), mask, d, x + i);
    hn::BlendedStore(hn::MulAdd(a, s, hn::Mul(b, c)), mask, d, x + half + i);
  });
}

}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::exec {

HWY_EXPORT(rms_norm);
HWY_EXPORT(add);
HWY_EXPORT(gate_with);
HWY_EXPORT(rotate);

void rms_norm(const float* x, const float* weight, std::int64_t n, float epsilon, float* y) {
  HWY_DYNAMIC_DISPATCH(rms_norm)(x, weight, n, epsilon, y);
}
void add(const float* x, std::int64_t n, float* y) { HWY_DYNAMIC_DISPATCH(add)(x, n, y); }
void gate_with(const float* up, std::int64_t n, float* gate) {
  HWY_DYNAMIC_DISPATCH(gate_with)(up, n, gate);
}
void rotate(const float* cosine, const float* sine, std::int64_t half, float* x) {
  HWY_DYNAMIC_DISPATCH(rotate)(cosine, sine, half, x);
}

}  // namespace tandem::exec
#endif
