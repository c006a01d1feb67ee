#pragma once

// The reference implementation of every kernel in plain Eigen expressions: it documents what a task
// computes, and faster kernels are tested against it. Each function's comment gives its equation
// and the shapes of its operands. Vectors are rows of matrices, matrices are row-major.
//
// Not included, as both sets of kernels share them as plain code: the formats of weights
// (exec/weights/formats/block_codec.hpp), with which an embedding row is decoded; the cosines and
// sines of rotary embedding (exec/kernels/rope.hpp); keys and values in the cache
// (exec/kernels/cached_row.hpp); rows of messages (exec/kernels/wire_row.hpp).

#include <Eigen/Core>
#include <cstdint>

#include "exec/kernels/attention.hpp"
#include "exec/kernels/weight_operands.hpp"
#include "model/transformer/architecture.hpp"

namespace tandem::exec::reference {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::RowVectorXf;
// Views of operands; rows of matrices may be apart.
using ConstRow = Eigen::Map<const Vector>;
using ConstRows = Eigen::Map<const Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;
using Rows = Eigen::Map<Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;

// eigen_product.cpp
void product(const WeightProduct& p);

// eigen_attention.cpp
void attend(const Attention& a);
void weigh_keys(const Attention& a, float* sums, std::int64_t stride);
void merge(const AttendedPart& from, const AttendedPart& into, std::int64_t heads,
           std::int64_t head_dim);

// eigen_rowwise.cpp
void rms_norm(const float* x, const float* weight, std::int64_t n, float epsilon, float* y);
void layer_norm(const float* x, const float* weight, const float* bias, std::int64_t n,
                float epsilon, float* y);
void activate(model::Activation activation, const float* bias, std::int64_t n, float* y);
void add(const float* x, std::int64_t n, float* y);
void add_scaled(const float* x, float scale, std::int64_t n, float* y);
void gate_with(const float* up, std::int64_t n, float* gate);
void multiply_with(const float* up, std::int64_t n, float* gate);
void scale_by(float scale, std::int64_t n, float* y);
void soft_cap(float cap, std::int64_t n, float* y);
[[nodiscard]] float exp_sum(const float* x, float shift, std::int64_t n);
void rotate(const float* cosine, const float* sine, std::int64_t half, float* x);

}  // namespace tandem::exec::reference
