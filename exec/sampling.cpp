#include "exec/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "model/error.hpp"

namespace tandem::exec {
namespace {

struct Candidate {
  std::int32_t id = 0;
  double weight = 0.0;  // exp((logit - largest) / temperature)
};

void check_logits(std::span<const float> logits) {
  require(!logits.empty(), "sampler: no logits");
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isnan(logits[i])) continue;
    throw Error("sampling: the logit of token " + std::to_string(i) +
                " is NaN, expected a number; the weights or a message are corrupt, make the "
                "weights again");
  }
}

// Uniform in [0, 1): the generator's upper 53 bits. (std::uniform_real_distribution differs between
// libraries.)
double uniform(std::mt19937_64& engine) { return static_cast<double>(engine() >> 11U) * 0x1p-53; }

}  // namespace

Sampler::Sampler(const SamplingOptions& options) : options_(options), engine_(options.seed) {
  if (!(options.temperature >= 0.0) || std::isinf(options.temperature)) {
    throw Error("temperature: " + std::to_string(options.temperature) +
                ", expected a number from 0 (greedy); try 0.8");
  }
  if (!(options.top_p > 0.0 && options.top_p <= 1.0)) {
    throw Error("top-p: " + std::to_string(options.top_p) +
                ", expected above 0 and at most 1 (all tokens); try 0.95");
  }
}

std::int32_t Sampler::sample(std::span<const float> logits) {
  check_logits(logits);
  const auto largest = std::ranges::max_element(logits);  // the first among equals
  const auto greedy = static_cast<std::int32_t>(largest - logits.begin());
  // An infinite logit is certain; differences from it are not numbers.
  if (options_.temperature == 0.0 || std::isinf(*largest)) return greedy;

  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  double total = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double difference = static_cast<double>(logits[i]) - static_cast<double>(*largest);
    candidates.push_back(
        {static_cast<std::int32_t>(i), std::exp(difference / options_.temperature)});
    total += candidates.back().weight;
  }
  if (options_.top_p < 1.0) {
    // Likeliest first, the smaller id among equals.
    std::ranges::stable_sort(candidates, std::greater<>(), &Candidate::weight);
    double kept = 0.0;
    std::size_t size = 0;
    while (size < candidates.size() && (size == 0 || kept < options_.top_p * total)) {
      kept += candidates[size++].weight;
    }
    candidates.resize(size);
    total = kept;
  }

  double remaining = uniform(engine_) * total;
  for (const Candidate& candidate : candidates) {
    remaining -= candidate.weight;
    if (remaining < 0.0) return candidate.id;
  }
  return candidates.front().id;  // rounding used up the last token: the likeliest of the set
}

}  // namespace tandem::exec
