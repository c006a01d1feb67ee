// Norms, activation functions, sums and rotations of one row. All vectors are [n] unless a comment
// gives another shape.

#include <cmath>
#include <numbers>

#include "exec/kernels/reference/eigen_kernels.hpp"

namespace tandem::exec::reference {
namespace {

using ConstArray = Eigen::Map<const Eigen::ArrayXf>;
using Array = Eigen::Map<Eigen::ArrayXf>;

}  // namespace

// y = x / sqrt(mean(x^2) + epsilon) * weight
void rms_norm(const float* x, const float* weight, std::int64_t n, float epsilon, float* y) {
  const ConstArray row(x, n);
  const float scale = 1.0F / std::sqrt(row.square().mean() + epsilon);
  Array(y, n) = row * scale * ConstArray(weight, n);
}

// y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * weight + bias
void layer_norm(const float* x, const float* weight, const float* bias, std::int64_t n,
                float epsilon, float* y) {
  const Eigen::ArrayXf centred = ConstArray(x, n) - ConstArray(x, n).mean();
  const float scale = 1.0F / std::sqrt(centred.square().mean() + epsilon);
  Array(y, n) = centred * scale * ConstArray(weight, n) + ConstArray(bias, n);
}

// y = act(y + bias), without a bias if it is null:
//   relu       max(z, 0)
//   silu       z / (1 + exp(-z))
//   gelu       z / 2 (1 + erf(z / sqrt(2)))
//   gelu_tanh  z / 2 (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3)))
void activate(model::Activation activation, const float* bias, std::int64_t n, float* y) {
  Array z(y, n);
  if (bias != nullptr) z += ConstArray(bias, n);
  switch (activation) {
    case model::Activation::relu:
      z = z.max(0.0F);
      return;
    case model::Activation::silu:
      z = z / (1.0F + (-z).exp());
      return;
    case model::Activation::gelu:
      z = 0.5F * z * (1.0F + (z / std::numbers::sqrt2_v<float>).unaryExpr([](float v) {
            return std::erf(v);
          }));
      return;
    case model::Activation::gelu_tanh:
      const float factor = std::sqrt(2.0F * std::numbers::inv_pi_v<float>);
      z = 0.5F * z * (1.0F + (factor * (z + 0.044715F * z.cube())).tanh());
      return;
  }
}

// y = y + x
void add(const float* x, std::int64_t n, float* y) { Array(y, n) += ConstArray(x, n); }

// y = y + x * scale
void add_scaled(const float* x, float scale, std::int64_t n, float* y) {
  Array(y, n) += ConstArray(x, n) * scale;
}

// gate = gate / (1 + exp(-gate)) * up
void gate_with(const float* up, std::int64_t n, float* gate) {
  Array z(gate, n);
  z = z / (1.0F + (-z).exp()) * ConstArray(up, n);
}

// gate = gate * up
void multiply_with(const float* up, std::int64_t n, float* gate) {
  Array(gate, n) *= ConstArray(up, n);
}

// y = y * scale
void scale_by(float scale, std::int64_t n, float* y) { Array(y, n) *= scale; }

// y = cap tanh(y / cap)
void soft_cap(float cap, std::int64_t n, float* y) {
  Array row(y, n);
  row = cap * (row / cap).tanh();
}

// sum of exp(x - shift)
float exp_sum(const float* x, float shift, std::int64_t n) {
  return (ConstArray(x, n) - shift).exp().sum();
}

// x is [2, half]: x[0, i] and x[1, i] turn by the angle whose cosine and sine are c[i] and s[i]:
//   x[0] = x[0] c - x[1] s    x[1] = x[0] s + x[1] c        c, s: [half]
void rotate(const float* cosine, const float* sine, std::int64_t half, float* x) {
  const ConstArray c(cosine, half);
  const ConstArray s(sine, half);
  Array first(x, half);
  Array second(x + half, half);
  const Eigen::ArrayXf turned = first * c - second * s;
  second = first * s + second * c;
  first = turned;
}

}  // namespace tandem::exec::reference
