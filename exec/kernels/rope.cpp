#include "exec/kernels/rope.hpp"

#include <cmath>
#include <numbers>

namespace tandem::exec {

namespace {

double scaled(double frequency, const model::RopeScaling& scaling) {
  switch (scaling.kind) {
    case model::RopeScaling::Kind::linear:
      return frequency / scaling.factor;
    case model::RopeScaling::Kind::llama3: {
      const double turns = static_cast<double>(scaling.original_context) * frequency /
                           (2.0 * std::numbers::pi);  // over the original context
      if (turns > scaling.high_frequency_factor) return frequency;
      if (turns < scaling.low_frequency_factor) return frequency / scaling.factor;
      const double smooth = (turns - scaling.low_frequency_factor) /
                            (scaling.high_frequency_factor - scaling.low_frequency_factor);
      return (1.0 - smooth) * frequency / scaling.factor + smooth * frequency;
    }
  }
  return frequency;
}

}  // namespace

double rope_frequency(const model::Transformer& transformer, std::int64_t pair) {
  const double exponent =
      -2.0 * static_cast<double>(pair) / static_cast<double>(transformer.head_dim);
  const double frequency = std::pow(transformer.rope_theta, exponent);
  return transformer.rope_scaling ? scaled(frequency, *transformer.rope_scaling) : frequency;
}

RopeTable::RopeTable(const model::Transformer& transformer, std::int32_t max_rows, float* table)
    : frequency_(static_cast<std::size_t>(transformer.head_dim / 2)),
      table_(table),
      position_(static_cast<std::size_t>(max_rows), -1) {
  for (std::size_t i = 0; i < frequency_.size(); ++i)
    frequency_[i] = rope_frequency(transformer, static_cast<std::int64_t>(i));
}

void RopeTable::set(std::int32_t row, std::int32_t position) {
  std::int32_t& current = position_[static_cast<std::size_t>(row)];
  if (current == position) return;
  current = position;
  const std::size_t n = frequency_.size();
  float* to = table_ + static_cast<std::size_t>(row) * 2 * n;
  for (std::size_t i = 0; i < n; ++i) {
    const double angle = position * frequency_[i];
    to[i] = static_cast<float>(std::cos(angle));
    to[n + i] = static_cast<float>(std::sin(angle));
  }
}

}  // namespace tandem::exec
