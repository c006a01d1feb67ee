#include "exec/compute/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

using Weighted = Sampler::Weighted;

// Likeliest first, the smaller id among equals.
bool before(const Weighted& a, const Weighted& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

// Sorts the likeliest of `candidates` to the front, as many as are needed for their weights to
// reach `enough`; returns their number and the sum of their weights. Same result as sorting all.
std::pair<std::size_t, double> select(std::span<Weighted> candidates, double enough, double total) {
  constexpr std::size_t kFirst = 128;  // candidates; then four times as many, and so on
  // All candidates lighter than this together weigh less than what may be left out, so the nucleus
  // ends before them, except for rounding.
  const double light = (total - enough) / static_cast<double>(candidates.size());
  const auto rest = std::partition(candidates.begin(), candidates.end(),
                                   [light](const Weighted& c) { return c.weight >= light; });
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
  if (options.top_k < 0) {
    throw Error("top-k: " + std::to_string(options.top_k) +
                ", expected at least 1, or 0 (all tokens); try 40");
  }
}

bool decided_by(const SamplingOptions& options, std::int64_t candidates) {
  return options.temperature == 0.0 || (0 < options.top_k && options.top_k <= candidates);
}

std::int32_t Sampler::sample(const Scores& scores) {
  if (scores.whole()) return sample(scores.logits());
  return sample_best(scores.best());
}

std::int32_t Sampler::sample(std::span<const float> logits) {
  check_logits(logits);
  const auto largest = std::ranges::max_element(logits);  // the first among equals
  const auto greedy = static_cast<std::int32_t>(largest - logits.begin());
  // An infinite logit is certain; differences from it are not numbers.
  if (options_.temperature == 0.0 || std::isinf(*largest)) return greedy;
  if (options_.top_k > 0) {
    find_best(logits, 0, static_cast<std::size_t>(options_.top_k), best_);
    return sample_best(best_);
  }

  weighted_.clear();
  weighted_.reserve(logits.size());
  double total = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double difference = static_cast<double>(logits[i]) - static_cast<double>(*largest);
    weighted_.push_back(
        {static_cast<std::int32_t>(i), std::exp(difference / options_.temperature)});
    total += weighted_.back().weight;
  }
  std::span<Weighted> nucleus = weighted_;
  if (options_.top_p < 1.0) {
    const auto [size, kept] = select(weighted_, options_.top_p * total, total);
    nucleus = nucleus.first(size);
    total = kept;
  }
  return draw(nucleus, total);
}

std::int32_t Sampler::sample_best(std::span<const Candidate> best) {
  require(!best.empty() && (options_.temperature == 0.0 || options_.top_k > 0),
          "sampler: candidates that decide");
  const float largest = best.front().logit;
  if (options_.temperature == 0.0 || std::isinf(largest)) return best.front().id;
  weighted_.clear();
  double total = 0.0;
  for (const Candidate& candidate :
       best.first(std::min(best.size(), static_cast<std::size_t>(options_.top_k)))) {
    const double difference = static_cast<double>(candidate.logit) - static_cast<double>(largest);
    weighted_.push_back({candidate.id, std::exp(difference / options_.temperature)});
    total += weighted_.back().weight;
  }
  const double enough = options_.top_p * total;
  std::size_t size = weighted_.size();
  if (options_.top_p < 1.0) {
    total = 0.0;
    for (size = 0; size == 0 || (total < enough && size < weighted_.size()); ++size)
      total += weighted_[size].weight;
  }
  return draw(std::span<const Weighted>(weighted_).first(size), total);
}

std::int32_t Sampler::draw(std::span<const Weighted> among, double total) {
  double remaining = uniform(engine_) * total;
  for (const Weighted& one : among) {
    remaining -= one.weight;
    if (remaining < 0.0) return one.id;
  }
  return among.front().id;  // rounding used up the last token: the likeliest of the set
}

}  // namespace tandem::exec
