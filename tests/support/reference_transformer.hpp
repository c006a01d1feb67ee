#pragma once

// A slow, obvious Llama in double precision: plain loops over whole matrices, nothing shared with
// the kernels. What every faster path is compared with.

#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "exec/profiling/synthetic_shard.hpp"
#include "model/base/range.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::testing {

struct Matrix {  // row-major
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(std::int64_t r, std::int64_t c)
      : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}
  double& at(std::int64_t r, std::int64_t c) {
    return values[static_cast<std::size_t>(r * columns + c)];
  }
  [[nodiscard]] double at(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * columns + c)];
  }
};

// Deterministic weights of the whole model: about N(0, scale^2) in spirit, uniform in fact; norms
// near 1. A hash, so that any element can be asked for at any time.
struct RandomWeights {
  std::uint64_t seed = 1;
  double scale = 0.1;

  float operator()(const exec::WeightElement& e) const {
    std::uint64_t h = seed * 0x9E3779B97F4A7C15ULL;
    for (const std::uint64_t part :
         {static_cast<std::uint64_t>(e.name), static_cast<std::uint64_t>(e.layer + 1),
          static_cast<std::uint64_t>(e.row), static_cast<std::uint64_t>(e.column)}) {
      h = (h ^ part) * 0xBF58476D1CE4E5B9ULL;
      h ^= h >> 29;
    }
    const double uniform = static_cast<double>(h >> 11) * 0x1p-52 - 1.0;  // [-1, 1)
    const bool norm = e.name == exec::WeightName::attention_norm ||
                      e.name == exec::WeightName::ffn_norm ||
                      e.name == exec::WeightName::final_norm;
    return static_cast<float>(norm ? 1.0 + 0.1 * uniform : scale * uniform);
  }
};

using WeightFunction = std::function<float(const exec::WeightElement&)>;

// Rows and columns of one weight matrix.
inline Matrix weight_matrix(const WeightFunction& weights, exec::WeightName name,
                            std::int32_t layer, std::int64_t rows, std::int64_t columns) {
  Matrix m(rows, columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) m.at(r, c) = weights({name, layer, r, c});
  }
  return m;
}

// x W^T for W [out, in].
inline Matrix times_transposed(const Matrix& x, const Matrix& w) {
  Matrix y(x.rows, w.rows);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t o = 0; o < w.rows; ++o) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < x.columns; ++k) sum += x.at(r, k) * w.at(o, k);
      y.at(r, o) = sum;
    }
  }
  return y;
}

inline Matrix rms_norm(const Matrix& x, const Matrix& weight, double epsilon) {
  Matrix y(x.rows, x.columns);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    double squares = 0.0;
    for (std::int64_t c = 0; c < x.columns; ++c) squares += x.at(r, c) * x.at(r, c);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.columns) + epsilon);
    for (std::int64_t c = 0; c < x.columns; ++c) y.at(r, c) = x.at(r, c) * scale * weight.at(c, 0);
  }
  return y;
}

// Angle a position of pair i, as Hugging Face's modeling_rope_utils computes it.
inline double rope_frequency(const model::Transformer& t, std::int64_t i) {
  const double frequency =
      std::pow(t.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(t.head_dim));
  if (!t.rope_scaling) return frequency;
  const model::RopeScaling& s = *t.rope_scaling;
  if (s.kind == model::RopeScaling::Kind::linear) return frequency / s.factor;
  const double context = static_cast<double>(s.original_context);
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  if (wavelength < context / s.high_frequency_factor) return frequency;
  if (wavelength > context / s.low_frequency_factor) return frequency / s.factor;
  const double smooth = (context / wavelength - s.low_frequency_factor) /
                        (s.high_frequency_factor - s.low_frequency_factor);
  return (1.0 - smooth) * frequency / s.factor + smooth * frequency;
}

// Rotates every head of x; row r is at position past + r.
inline void apply_rope(Matrix& x, const model::Transformer& t, std::int64_t past) {
  const std::int64_t half = t.head_dim / 2;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t head = 0; head < x.columns / t.head_dim; ++head) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(past + r) * rope_frequency(t, i);
        double& a = x.at(r, head * t.head_dim + i);
        double& b = x.at(r, head * t.head_dim + half + i);
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = turned;
      }
    }
  }
}

// Row r of q sees the keys of `keys` up to position past + r. q: [rows, heads d]; k, v:
// [positions, kv heads d]; query head h uses key/value head h / group.
inline Matrix causal_attention(const Matrix& q, const Matrix& k, const Matrix& v,
                               std::int64_t head_dim, std::int64_t group, std::int64_t past,
                               model::Range keys = {0, 1 << 30}) {
  Matrix y(q.rows, q.columns);
  for (std::int64_t r = 0; r < q.rows; ++r) {
    const std::int64_t end = std::min<std::int64_t>({keys.end, past + r + 1, k.rows});
    for (std::int64_t head = 0; head < q.columns / head_dim; ++head) {
      const std::int64_t from = head * head_dim;
      const std::int64_t kv_from = head / group * head_dim;
      std::vector<double> weights;
      double sum = 0.0;
      for (std::int64_t p = keys.begin; p < end; ++p) {
        double dot = 0.0;
        for (std::int64_t i = 0; i < head_dim; ++i) dot += q.at(r, from + i) * k.at(p, kv_from + i);
        weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(head_dim))));
        sum += weights.back();
      }
      for (std::int64_t p = keys.begin; p < end; ++p) {
        const double share = weights[static_cast<std::size_t>(p - keys.begin)] / sum;
        for (std::int64_t i = 0; i < head_dim; ++i) {
          y.at(r, from + i) += share * v.at(p, kv_from + i);
        }
      }
    }
  }
  return y;
}

inline Matrix swiglu(const Matrix& gate, const Matrix& up) {
  Matrix y(gate.rows, gate.columns);
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    y.values[i] = gate.values[i] / (1.0 + std::exp(-gate.values[i])) * up.values[i];
  }
  return y;
}

inline void add_to(Matrix& y, const Matrix& x) {
  for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] += x.values[i];
}

// Logits of every position of one sequence, [tokens, vocab]: no cache, no batching.
inline Matrix reference_logits(const model::Transformer& t, const WeightFunction& weights,
                               const std::vector<std::int32_t>& tokens) {
  using exec::WeightName;
  const auto count = static_cast<std::int64_t>(tokens.size());
  const auto matrix = [&](WeightName name, std::int32_t layer, std::int64_t rows,
                          std::int64_t columns) {
    return weight_matrix(weights, name, layer, rows, columns);
  };
  const std::int64_t q_width = t.heads * t.head_dim;
  const std::int64_t kv_width = t.kv_heads * t.head_dim;
  Matrix x(count, t.hidden);
  for (std::int64_t r = 0; r < count; ++r) {
    for (std::int64_t c = 0; c < t.hidden; ++c) {
      x.at(r, c) = weights({WeightName::embedding, -1, tokens[static_cast<std::size_t>(r)], c});
    }
  }
  for (std::int32_t layer = 0; layer < t.layers; ++layer) {
    Matrix in = rms_norm(x, matrix(WeightName::attention_norm, layer, t.hidden, 1), t.norm_epsilon);
    Matrix q = times_transposed(in, matrix(WeightName::query, layer, q_width, t.hidden));
    Matrix k = times_transposed(in, matrix(WeightName::key, layer, kv_width, t.hidden));
    const Matrix v = times_transposed(in, matrix(WeightName::value, layer, kv_width, t.hidden));
    apply_rope(q, t, 0);
    apply_rope(k, t, 0);
    const Matrix attended = causal_attention(q, k, v, t.head_dim, t.group(), 0);
    add_to(x, times_transposed(attended, matrix(WeightName::out, layer, t.hidden, q_width)));

    in = rms_norm(x, matrix(WeightName::ffn_norm, layer, t.hidden, 1), t.norm_epsilon);
    const Matrix gate =
        times_transposed(in, matrix(WeightName::gate, layer, t.intermediate, t.hidden));
    const Matrix up = times_transposed(in, matrix(WeightName::up, layer, t.intermediate, t.hidden));
    add_to(x, times_transposed(swiglu(gate, up),
                               matrix(WeightName::down, layer, t.hidden, t.intermediate)));
  }
  const Matrix out = rms_norm(x, matrix(WeightName::final_norm, -1, t.hidden, 1), t.norm_epsilon);
  const WeightName head = t.tied_embeddings ? WeightName::embedding : WeightName::head;
  return times_transposed(out, matrix(head, -1, t.vocab, t.hidden));
}

}  // namespace tandem::testing
