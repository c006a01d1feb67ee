#include "exec/kernels/rope.hpp"

#include <algorithm>
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
    case model::RopeScaling::Kind::yarn:
    case model::RopeScaling::Kind::longrope:
      break;  // by pair
  }
  return frequency;
}

// The pair, in fractions, that turns so many times in the original context.
double pair_of_turns(const model::Transformer& t, double turns) {
  const auto context = static_cast<double>(t.rope_scaling->original_context);
  return static_cast<double>(t.rotated()) * std::log(context / (turns * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(t.rope_theta));
}

double yarn(const model::Transformer& t, double frequency, std::int64_t pair) {
  const model::RopeScaling& scaling = *t.rope_scaling;
  double first = pair_of_turns(t, scaling.fast_turns);
  double last = pair_of_turns(t, scaling.slow_turns);
  if (scaling.whole_pairs) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(t.rotated() - 1));
  constexpr double kApart = 0.001;  // of bounds that coincide
  if (first == last) last += kApart;
  const double slow = std::clamp((static_cast<double>(pair) - first) / (last - first), 0.0, 1.0);
  return frequency / scaling.factor * slow + frequency * (1.0 - slow);
}

}  // namespace

double rope_frequency(const model::Transformer& transformer, std::int64_t pair, RopeLayers layers,
                      bool long_context) {
  const double exponent =
      -2.0 * static_cast<double>(pair) / static_cast<double>(transformer.rotated());
  if (layers == RopeLayers::windowed && transformer.window_rope_theta > 0.0)
    return std::pow(transformer.window_rope_theta, exponent);
  const double frequency = std::pow(transformer.rope_theta, exponent);
  if (!transformer.rope_scaling) return frequency;
  const model::RopeScaling& scaling = *transformer.rope_scaling;
  if (scaling.kind == model::RopeScaling::Kind::yarn) return yarn(transformer, frequency, pair);
  if (scaling.kind == model::RopeScaling::Kind::longrope) {
    const auto& factors = long_context ? scaling.long_factors : scaling.short_factors;
    return frequency / static_cast<double>(factors.at(static_cast<std::size_t>(pair)));
  }
  return scaled(frequency, scaling);
}

RopeTable::RopeTable(const model::Transformer& transformer, RopeLayers layers,
                     std::int32_t max_rows, float* table)
    : table_(table), angles_(static_cast<std::size_t>(max_rows)) {
  for (std::int64_t pair = 0; pair < transformer.rotated() / 2; ++pair) {
    frequency_.push_back(rope_frequency(transformer, pair, layers, /*long_context=*/false));
    long_frequency_.push_back(rope_frequency(transformer, pair, layers, /*long_context=*/true));
  }
  const bool plain = layers == RopeLayers::windowed && transformer.window_rope_theta > 0.0;
  if (transformer.rope_scaling && !plain)
    size_ = static_cast<double>(transformer.rope_scaling->attention_factor);
}

void RopeTable::set(std::int32_t row, std::int32_t position, bool long_context) {
  Angles& current = angles_[static_cast<std::size_t>(row)];
  const Angles wanted{position, long_context};
  if (current == wanted) return;
  current = wanted;
  const std::vector<double>& frequency = long_context ? long_frequency_ : frequency_;
  const std::size_t n = frequency.size();
  float* to = table_ + static_cast<std::size_t>(row) * 2 * n;
  for (std::size_t i = 0; i < n; ++i) {
    const double angle = position * frequency[i];
    to[i] = static_cast<float>(size_ * std::cos(angle));
    to[n + i] = static_cast<float>(size_ * std::sin(angle));
  }
}

}  // namespace tandem::exec
