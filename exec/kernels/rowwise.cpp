#include "exec/kernels/rowwise.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/rowwise.cpp"
#include "exec/kernels/targets.hpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
#include "exec/kernels/partial-inl.hpp"
// clang-format on

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace tandem::exec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;

void rms_norm(const float* HWY_RESTRICT x, const float* HWY_RESTRICT weight, std::int64_t n,
              float epsilon, float* HWY_RESTRICT y) {
  const Floats d;
  auto squares = hn::Zero(d);
  for_vectors(d, n, [&](std::int64_t i, auto part) HWY_ATTR {
    const auto v = load(d, x + i, part);
    squares = hn::MulAdd(v, v, squares);
  });
  const float mean = hn::GetLane(hn::SumOfLanes(d, squares)) / static_cast<float>(n);
  const auto scale = hn::Set(d, 1.0F / std::sqrt(mean + epsilon));
  for_vectors(d, n, [&](std::int64_t i, auto part) HWY_ATTR {
    const auto v = hn::Mul(load(d, x + i, part), scale);
    store(hn::Mul(v, load(d, weight + i, part)), d, y + i, part);
  });
}

void add(const float* x, std::int64_t n, float* y) {
  const Floats d;
  for_vectors(d, n, [&](std::int64_t i, auto part) HWY_ATTR {
    const auto sum = hn::Add(load(d, y + i, part), load(d, x + i, part));
    store(sum, d, y + i, part);
  });
}

void gate_with(const float* HWY_RESTRICT up, std::int64_t n, float* HWY_RESTRICT gate) {
  const Floats d;
  const auto one = hn::Set(d, 1.0F);
  for_vectors(d, n, [&](std::int64_t i, auto part) HWY_ATTR {
    const auto z = load(d, gate + i, part);
    // Exp is defined up to 104.
    const auto e = hn::Exp(d, hn::Min(hn::Neg(z), hn::Set(d, 88.0F)));
    const auto silu = hn::Div(z, hn::Add(one, e));
    store(hn::Mul(silu, load(d, up + i, part)), d, gate + i, part);
  });
}

void rotate(const float* HWY_RESTRICT cosine, const float* HWY_RESTRICT sine, std::int64_t half,
            float* HWY_RESTRICT x) {
  const Floats d;
  for_vectors(d, half, [&](std::int64_t i, auto part) HWY_ATTR {
    const auto c = load(d, cosine + i, part);
    const auto s = load(d, sine + i, part);
    const auto a = load(d, x + i, part);
    const auto b = load(d, x + half + i, part);
    store(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), d, x + i, part);
    store(hn::MulAdd(a, s, hn::Mul(b, c)), d, x + half + i, part);
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
