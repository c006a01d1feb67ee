#pragma once

// Elementwise work on one row. Single-threaded; pointers need no alignment.

#include <cstdint>

#include "model/transformer/architecture.hpp"

namespace tandem::exec {

// y = x / sqrt(mean(x^2) + epsilon) * weight            Zhang & Sennrich, NeurIPS 2019
// y may be x.
void rms_norm(const float* x, const float* weight, std::int64_t n, float epsilon, float* y);

// y = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias         Ba, Kiros & Hinton 2016
// where the variance is the mean square of what is left after the mean. y may be x.
void layer_norm(const float* x, const float* weight, const float* bias, std::int64_t n,
                float epsilon, float* y);

// y = act(y + bias); null: no bias.
void activate(model::Activation activation, const float* bias, std::int64_t n, float* y);

// y += x
void add(const float* x, std::int64_t n, float* y);

// y += x * scale
void add_scaled(const float* x, float scale, std::int64_t n, float* y);

// gate = silu(gate) * up, silu(z) = z / (1 + exp(-z))
void gate_with(const float* up, std::int64_t n, float* gate);
// gate = gate * up
void multiply_with(const float* up, std::int64_t n, float* gate);

// y = y * scale
void scale_by(float scale, std::int64_t n, float* y);

// y = cap tanh(y / cap)
void soft_cap(float cap, std::int64_t n, float* y);

// The sum of exp(x - shift), which no x is larger than.
[[nodiscard]] float exp_sum(const float* x, float shift, std::int64_t n);

// Rotates pairs (x[i], x[i + half]) by the angles whose cosine and sine are given, in place; n =
// 2 half. Su et al. 2021, in the half-split order of Hugging Face's weights.
void rotate(const float* cosine, const float* sine, std::int64_t half, float* x);

}  // namespace tandem::exec
