#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace tandem::exec {

struct SamplingOptions {
  double temperature = 0.0;  // 0: greedy
  double top_p = 1.0;        // nucleus: smallest set of tokens with at least this probability
  std::uint64_t seed = 0;
};

// Chooses the next token. Greedy takes the largest logit, the smallest id among equals. Otherwise
// softmax(logits / temperature) restricted to the nucleus (Holtzman et al., 2020). The sequence of
// draws depends on seed and logits only, on every platform.
class Sampler {
 public:
  // Throws Error unless temperature >= 0 and 0 < top_p <= 1, naming the value and the range.
  explicit Sampler(const SamplingOptions& options);
  // Throws Error if any logit is NaN (weights or transport are corrupt).
  [[nodiscard]] std::int32_t sample(std::span<const float> logits);

  struct Candidate {
    std::int32_t id = 0;
    double weight = 0.0;  // exp((logit - largest) / temperature)
  };

 private:
  SamplingOptions options_;
  std::mt19937_64 engine_;
  std::vector<Candidate> candidates_;  // of the present call
};

}  // namespace tandem::exec
