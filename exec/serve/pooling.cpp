#include "exec/serve/pooling.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace tandem::exec {
namespace {

std::vector<float> mean_of(std::span<const float> states, std::size_t width) {
  std::vector<double> sums(width);
  for (std::size_t i = 0; i < states.size(); ++i) sums[i % width] += states[i];
  const double tokens = static_cast<double>(states.size()) / static_cast<double>(width);
  std::vector<float> mean(width);
  for (std::size_t c = 0; c < width; ++c) mean[c] = static_cast<float>(sums[c] / tokens);
  return mean;
}

std::vector<float> first_of(std::span<const float> states, std::size_t width) {
  const auto first = states.first(width);
  return {first.begin(), first.end()};
}

std::vector<float> largest_of(std::span<const float> states, std::size_t width) {
  std::vector<float> largest = first_of(states, width);
  for (std::size_t i = width; i < states.size(); ++i)
    largest[i % width] = std::max(largest[i % width], states[i]);
  return largest;
}

constexpr std::array kPoolings{
    Pooling{"mean", "pooling_mode_mean_tokens", "the mean of all tokens", mean_of},
    Pooling{"cls", "pooling_mode_cls_token", "the first token, [CLS]", first_of},
    Pooling{"max", "pooling_mode_max_tokens", "the largest value of each column", largest_of},
};

}  // namespace

std::span<const Pooling> poolings() { return kPoolings; }

const Pooling* find_pooling(std::string_view name) {
  const auto* const found = std::ranges::find(kPoolings, name, &Pooling::name);
  return found == kPoolings.end() ? nullptr : found;
}

std::vector<float> unit_vector(std::vector<float> vector) {
  double squares = 0.0;
  for (const float x : vector) squares += static_cast<double>(x) * static_cast<double>(x);
  if (squares == 0.0) return vector;
  const double length = std::sqrt(squares);
  for (float& x : vector) x = static_cast<float>(static_cast<double>(x) / length);
  return vector;
}

}  // namespace tandem::exec
