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
  std::int64_t top_k = 0;  // number of likeliest tokens, before the nucleus; 0: all
};

// Returns whether sampling from a row's best `candidates` always equals sampling from all its
// logits.
[[nodiscard]] bool decided_by(const SamplingOptions& options, std::int64_t candidates);

// Chooses the next token. Greedy sampling selects the largest logit, of equal ones the smallest id.
// Otherwise draws from softmax(logits / temperature) of the likeliest top_k, restricted to the
// nucleus (Holtzman et al., 2020). The draws depend on seed and logits only, on every platform.
class Sampler {
 public:
  // Throws Error, naming the value and the range, unless temperature >= 0, 0 < top_p <= 1 and top_k
  // >= 0.
  explicit Sampler(const SamplingOptions& options);
  // Throws Error if any logit is NaN (weights or transport are corrupt).
  [[nodiscard]] std::int32_t sample(std::span<const float> logits);
  // Returns the same token from candidates as from all logits. Throws logic_error unless they
  // decide.
  [[nodiscard]] std::int32_t sample(const Scores& scores);

  struct Weighted {
    std::int32_t id = 0;
    double weight = 0.0;  // exp((logit - largest) / temperature)
  };

 private:
  // Samples from the likeliest tokens, in order, of which the first top_k count.
  [[nodiscard]] std::int32_t sample_best(std::span<const Candidate> best);
  [[nodiscard]] std::int32_t draw(std::span<const Weighted> among, double total);

  SamplingOptions options_;
  std::mt19937_64 engine_;
  std::vector<Weighted> weighted_;  // scratch of a call
  std::vector<Candidate> best_;     // scratch of a call
};

}  // namespace tandem::exec
