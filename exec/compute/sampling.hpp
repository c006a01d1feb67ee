#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "exec/compute/shortlist.hpp"

namespace tandem::exec {

struct SamplingOptions {
  double temperature = 0.0;  // 0: greedy
  double top_p = 1.0;        // nucleus: smallest set of tokens with at least this probability
  std::uint64_t seed = 0;
  std::int64_t top_k = 0;  // of so many likeliest tokens, before the nucleus; 0: of all
};

// Whether the best `candidates` of a row decide what is chosen from it, as all its logits would.
[[nodiscard]] bool decided_by(const SamplingOptions& options, std::int64_t candidates);

// Chooses the next token. Greedy takes the largest logit, the smallest id among equals. Otherwise
// softmax(logits / temperature) of the likeliest top_k, restricted to the nucleus (Holtzman et al.,
// 2020). The sequence of draws depends on seed and logits only, on every platform.
class Sampler {
 public:
  // Throws Error unless temperature >= 0, 0 < top_p <= 1 and top_k >= 0, naming the value and the
  // range.
  explicit Sampler(const SamplingOptions& options);
  // Throws Error if any logit is NaN (weights or transport are corrupt).
  [[nodiscard]] std::int32_t sample(std::span<const float> logits);
  // Of candidates the same token as of all logits. Throws logic_error unless they decide it.
  [[nodiscard]] std::int32_t sample(const Scores& scores);

  struct Weighted {
    std::int32_t id = 0;
    double weight = 0.0;  // exp((logit - largest) / temperature)
  };

 private:
  // Of the likeliest, in their order, of which top_k count.
  [[nodiscard]] std::int32_t sample_best(std::span<const Candidate> best);
  [[nodiscard]] std::int32_t draw(std::span<const Weighted> among, double total);

  SamplingOptions options_;
  std::mt19937_64 engine_;
  std::vector<Weighted> weighted_;  // of the present call
  std::vector<Candidate> best_;     // likewise
};

}  // namespace tandem::exec
