// Properties of families that files do not contain.

#include <cmath>
#include <vector>

#include "exec/gguf/gguf_geometry.hpp"
#include "exec/kernels/rope.hpp"

namespace tandem::exec {

using model::Family;
using model::Transformer;

bool gguf_in_pairs(Family family) {
  return family == Family::llama || family == Family::granite || family == Family::smollm3;
}

bool gguf_has_rope_factors(Family family) {
  return family == Family::llama || family == Family::granite;
}

double gguf_attention_scale(const Transformer& t) {
  // Gemma's largest models are known by their layers, and scale by the share of a head.
  constexpr std::int64_t kLargestGemma2 = 46;
  constexpr std::int64_t kLargestGemma3 = 62;
  const bool largest = t.layers == (t.family == Family::gemma2 ? kLargestGemma2 : kLargestGemma3);
  const std::int64_t scalar = largest ? t.hidden / t.heads : t.head_dim;
  return scalar == t.head_dim ? 0.0 : 1.0 / std::sqrt(static_cast<double>(scalar));
}

std::int64_t gguf_window_period(Family family) { return family == Family::gemma2 ? 2 : 6; }

std::vector<bool> gguf_windowed(std::int64_t layers, std::int64_t every) {
  std::vector<bool> windowed;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    windowed.push_back((layer + 1) % every != 0);
  return windowed;
}

std::vector<bool> gguf_unrotated(std::int64_t layers) {
  constexpr std::int64_t kEvery = 4;
  std::vector<bool> unrotated;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    unrotated.push_back((layer + 1) % kEvery == 0);
  return unrotated;
}

double gguf_yarn_growth(double factor) {
  constexpr double kGrowth = 0.1;
  return 1.0 + kGrowth * std::log(factor);
}

std::vector<float> rope_factors(const Transformer& transformer) {
  std::vector<float> factors;
  if (!transformer.rope_scaling ||
      transformer.rope_scaling->kind != model::RopeScaling::Kind::llama3)
    return factors;
  Transformer plain = transformer;
  plain.rope_scaling.reset();
  for (std::int64_t i = 0; i < transformer.rotated() / 2; ++i)
    factors.push_back(
        static_cast<float>(rope_frequency(plain, i) / rope_frequency(transformer, i)));
  return factors;
}

}  // namespace tandem::exec
