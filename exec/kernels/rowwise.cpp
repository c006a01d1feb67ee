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

void rms_norm(const float* x, const float* HWY_RESTRICT weight, std::int64_t n, float epsilon,
              float* y) {
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

void layer_norm(const float* x, const float* HWY_RESTRICT weight, const float* HWY_RESTRICT bias,
                std::int64_t n, float epsilon, float* y) {
  const Floats d;
  const auto count = static_cast<float>(n);
  auto sum = hn::Zero(d);
  for_vectors(
      d, n, [&](std::int64_t i, auto part) HWY_ATTR { sum = hn::Add(sum, load(d, x + i, part)); });
  const auto mean = hn::Set(d, hn::GetLane(hn::SumOfLanes(d, sum)) / count);
  auto squares = hn::Zero(d);
  const auto add_square = [&](auto v) HWY_ATTR {
    const auto left = hn::Sub(v, mean);
    squares = hn::MulAdd(left, left, squares);
  };
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t whole = 0;
  for (; whole + lanes <= n; whole += lanes) add_square(hn::LoadU(d, x + whole));
  float variance = hn::GetLane(hn::SumOfLanes(d, squares));
  // Lanes beyond the end would count as values of 0.
  for (; whole < n; ++whole) {
    const float left = x[whole] - hn::GetLane(mean);
    variance += left * left;
  }
  const auto scale = hn::Set(d, 1.0F / std::sqrt(variance / count + epsilon));
  for_vectors(d, n, [&](std::int64_t i, auto part) HWY_ATTR {
    const auto v = hn::Mul(hn::Sub(load(d, x + i, part), mean), scale);
    store(hn::MulAdd(v, load(d, weight + i, part), load(d, bias + i, part)), d, y + i, part);
  });
}

using Vector = hn::Vec<Floats>;

// x / (1 + exp(-z)); Exp is defined up to 104.
HWY_INLINE Vector times_logistic(Vector x, Vector z) {
  const Floats d;
  const auto e = hn::Exp(d, hn::Min(hn::Neg(z), hn::Set(d, 88.0F)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0F), e));
}

// The rational approximation that XLA and Eigen use for floats, within 4e-7 of erf: beyond 4 it is
// +-1.
HWY_INLINE Vector erf(Vector x) {
  const Floats d;
  const auto clamped = hn::Max(hn::Min(x, hn::Set(d, 4.0F)), hn::Set(d, -4.0F));
  const auto square = hn::Mul(clamped, clamped);
  auto numerator = hn::Set(d, -2.72614225801306e-10F);
  for (const float c : {2.77068142495902e-08F, -2.10102402082508e-06F, -5.69250639462346e-05F,
                        -7.34990630326855e-04F, -2.95459980854025e-03F, -1.60960333262415e-02F}) {
    numerator = hn::MulAdd(numerator, square, hn::Set(d, c));
  }
  auto denominator = hn::Set(d, -1.45660718464996e-05F);
  for (const float c : {-2.13374055278905e-04F, -1.68282697438203e-03F, -7.37332916720468e-03F,
                        -1.42647390514189e-02F}) {
    denominator = hn::MulAdd(denominator, square, hn::Set(d, c));
  }
  return hn::Div(hn::Mul(clamped, numerator), denominator);
}

template <class Function>
HWY_INLINE void activate_by(const float* HWY_RESTRICT bias, std::int64_t n, float* HWY_RESTRICT y,
                            const Function& function) {
  const Floats d;
  for_vectors(d, n, [&](std::int64_t i, auto part) HWY_ATTR {
    auto x = load(d, y + i, part);
    if (bias != nullptr) x = hn::Add(x, load(d, bias + i, part));
    store(function(x), d, y + i, part);
  });
}

void activate(model::Activation activation, const float* HWY_RESTRICT bias, std::int64_t n,
              float* HWY_RESTRICT y) {
  const Floats d;
  switch (activation) {
    case model::Activation::relu:
      // Not Max, of which some instruction sets make 0 of a NaN.
      return activate_by(bias, n, y, [&](Vector x) HWY_ATTR {
        return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
      });
    case model::Activation::silu:
      return activate_by(bias, n, y, [&](Vector x) HWY_ATTR { return times_logistic(x, x); });
    case model::Activation::gelu:
      return activate_by(bias, n, y, [&](Vector x) HWY_ATTR {
        const auto half = hn::Mul(x, hn::Set(d, 0.5F));
        return hn::MulAdd(half, erf(hn::Mul(x, hn::Set(d, 0.707106781F))), half);
      });
    case model::Activation::gelu_tanh:
      // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3)
      return activate_by(bias, n, y, [&](Vector x) HWY_ATTR {
        const auto cube = hn::Mul(hn::Mul(x, x), x);
        const auto u = hn::MulAdd(hn::Set(d, 0.044715F), cube, x);
        return times_logistic(x, hn::Mul(u, hn::Set(d, 1.59576912F)));
      });
  }
}

void add(const float* x, std::int64_t n, float* y) {
  const Floats d;
  for_vectors(d, n, [&](std::int64_t i, auto part) HWY_ATTR {
    const auto sum = hn::Add(load(d, y + i, part), load(d, x + i, part));
    store(sum, d, y + i, part);
  });
}

void add_scaled(const float* HWY_RESTRICT x, float scale, std::int64_t n, float* HWY_RESTRICT y) {
  const Floats d;
  const auto factor = hn::Set(d, scale);
  for_vectors(d, n, [&](std::int64_t i, auto part) HWY_ATTR {
    store(hn::MulAdd(load(d, x + i, part), factor, load(d, y + i, part)), d, y + i, part);
  });
}

void multiply_with(const float* HWY_RESTRICT up, std::int64_t n, float* HWY_RESTRICT gate) {
  const Floats d;
  for_vectors(d, n, [&](std::int64_t i, auto part) HWY_ATTR {
    store(hn::Mul(load(d, gate + i, part), load(d, up + i, part)), d, gate + i, part);
  });
}

void scale_by(float scale, std::int64_t n, float* HWY_RESTRICT y) {
  const Floats d;
  const auto factor = hn::Set(d, scale);
  for_vectors(d, n, [&](std::int64_t i, auto part) HWY_ATTR {
    store(hn::Mul(load(d, y + i, part), factor), d, y + i, part);
  });
}

void soft_cap(float cap, std::int64_t n, float* HWY_RESTRICT y) {
  const Floats d;
  const auto by = hn::Set(d, cap);
  const auto inverse = hn::Set(d, 1.0F / cap);
  for_vectors(d, n, [&](std::int64_t i, auto part) HWY_ATTR {
    store(hn::Mul(by, hn::Tanh(d, hn::Mul(load(d, y + i, part), inverse))), d, y + i, part);
  });
}

float exp_sum(const float* HWY_RESTRICT x, float shift, std::int64_t n) {
  const Floats d;
  const auto by = hn::Set(d, shift);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    sum = hn::Add(sum, hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), by)));
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < n; ++i) total += std::exp(x[i] - shift);
  return total;
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
HWY_EXPORT(layer_norm);
HWY_EXPORT(activate);
HWY_EXPORT(add);
HWY_EXPORT(add_scaled);
HWY_EXPORT(gate_with);
HWY_EXPORT(multiply_with);
HWY_EXPORT(scale_by);
HWY_EXPORT(soft_cap);
HWY_EXPORT(rotate);
HWY_EXPORT(exp_sum);

void rms_norm(const float* x, const float* weight, std::int64_t n, float epsilon, float* y) {
  HWY_DYNAMIC_DISPATCH(rms_norm)(x, weight, n, epsilon, y);
}
void layer_norm(const float* x, const float* weight, const float* bias, std::int64_t n,
                float epsilon, float* y) {
  HWY_DYNAMIC_DISPATCH(layer_norm)(x, weight, bias, n, epsilon, y);
}
void activate(model::Activation activation, const float* bias, std::int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(activate)(activation, bias, n, y);
}
void add(const float* x, std::int64_t n, float* y) { HWY_DYNAMIC_DISPATCH(add)(x, n, y); }
void add_scaled(const float* x, float scale, std::int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(add_scaled)(x, scale, n, y);
}
void multiply_with(const float* up, std::int64_t n, float* gate) {
  HWY_DYNAMIC_DISPATCH(multiply_with)(up, n, gate);
}
void scale_by(float scale, std::int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(scale_by)(scale, n, y);
}
float exp_sum(const float* x, float shift, std::int64_t n) {
  return HWY_DYNAMIC_DISPATCH(exp_sum)(x, shift, n);
}
void soft_cap(float cap, std::int64_t n, float* y) { HWY_DYNAMIC_DISPATCH(soft_cap)(cap, n, y); }
void gate_with(const float* up, std::int64_t n, float* gate) {
  HWY_DYNAMIC_DISPATCH(gate_with)(up, n, gate);
}
void rotate(const float* cosine, const float* sine, std::int64_t half, float* x) {
  HWY_DYNAMIC_DISPATCH(rotate)(cosine, sine, half, x);
}

}  // namespace tandem::exec
#endif
