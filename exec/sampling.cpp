#include "exec/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "model/error.hpp"

namespace tandem::exec {
namespace {

using Candidate = Sampler::Candidate;

// Likeliest first, the smaller id among equals.
bool before(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

// Sorts the likeliest of `candidates` to the front, as many as it takes for their weights to reach
// `enough`; returns how many and the sum of their weights. The same as sorting them all.
std::pair<std::size_t, double> select(std::span<Candidate> candidates, double enough,
                                      double total) {
  constexpr std::size_t kFirst = 128;  // candidates; then four times as many, and so on
  // All that are lighter than this together weigh less than what may be left out, so the nucleus
  // ends before them unless sums are rounded.
  const double light = (total - enough) / static_cast<double>(candidates.size());
  const auto rest = std::partition(candidates.begin(), candidates.end(),
                                   [light](const Candidate& c) { return c.weight >= light; });
  double kept = 0.0;
  std::size_t size = 0;
  std::size_t chunk = kFirst;
  for (auto end = static_cast<std::size_t>(rest - candidates.begin());; end = candidates.size()) {
    while (size < end) {
      const std::size_t next = std::min(end, size + chunk);
      chunk *= 4;
      const auto part = candidates.subspan(size, end - size);
      const auto middle = part.begin() + static_cast<std::ptrdiff_t>(next - size);
      if (middle != part.end()) std::nth_element(part.begin(), middle, part.end(), before);
      std::sort(part.begin(), middle, before);
      for (; size < next; ++size) {
        if (size > 0 && kept >= enough) return {size, kept};
        kept += candidates[size].weight;
      }
    }
    if (end == candidates.size() || (size > 0 && kept >= enough)) return {size, kept};
  }
}

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

  candidates_.clear();
  candidates_.reserve(logits.size());
  double total = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double difference = static_cast<double>(logits[i]) - static_cast<double>(*largest);
    candidates_.push_back(
        {static_cast<std::int32_t>(i), std::exp(difference / options_.temperature)});
    total += candidates_.back().weight;
  }
  std::span<Candidate> nucleus = candidates_;
  if (options_.top_p < 1.0) {
    const auto [size, kept] = select(candidates_, options_.top_p * total, total);
    nucleus = nucleus.first(size);
    total = kept;
  }

  double remaining = uniform(engine_) * total;
  for (const Candidate& candidate : nucleus) {
    remaining -= candidate.weight;
    if (remaining < 0.0) return candidate.id;
  }
  return nucleus.front().id;  // rounding used up the last token: the likeliest of the set
}

}  // namespace tandem::exec
