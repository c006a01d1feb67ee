#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "exec/compute/grammar_mask.hpp"
#include "exec/compute/penalties.hpp"
#include "exec/compute/shortlist.hpp"
#include "exec/compute/weighted_token.hpp"
#include "planner/plan/sampling.hpp"

namespace tandem::exec {

using SamplingOptions = planner::Sampling;

// Returns why sampling from a row's best `candidates` may differ from sampling from all its logits
// ("at temperature 0.8 without a top-k draws from more, expected ..."); empty if it never does.
[[nodiscard]] std::string undecided_by(const SamplingOptions& options, std::int64_t candidates);

// Chooses the tokens of one answer. The steps are those of vLLM, in its order: penalties,
// temperature, min_p, top_k, top_p. Greedy sampling selects the largest logit with penalties, of
// equal ones the smallest id. Otherwise draws from softmax(logits / temperature) of the tokens that
// the steps leave. The draws depend on seed, prompt and logits only, on every platform. With a
// grammar the tokens that it excludes are removed behind the penalties.
class Sampler {
 public:
  // `prompt` is read here only, by the repetition penalty. Throws Error, naming the value and the
  // range, for a number out of range.
  explicit Sampler(const SamplingOptions& options, std::span<const std::int32_t> prompt = {},
                   std::shared_ptr<const TokenGrammar> grammar = nullptr);
  // Returns the answer's next token. Throws Error if any logit is NaN (weights or transport are
  // corrupt).
  [[nodiscard]] std::int32_t sample(std::span<const float> logits) {
    return sample(Scores(logits));
  }
  // Returns the same token from candidates as from all logits. Throws logic_error unless they
  // decide.
  [[nodiscard]] std::int32_t sample(const Scores& scores);

 private:
  [[nodiscard]] std::int32_t choose(std::span<const float> logits);
  // Chooses from the likeliest tokens, in order, of which the first top_k count.
  [[nodiscard]] std::int32_t choose_best(std::span<const Candidate> best);
  [[nodiscard]] std::int32_t draw(std::span<const WeightedToken> among, double total);

  SamplingOptions options_;
  std::mt19937_64 engine_;
  std::optional<Penalties> penalties_;
  std::optional<GrammarMask> mask_;
  std::vector<WeightedToken> weighted_;  // scratch of a call
  std::vector<Candidate> best_;          // scratch of a call
};

}  // namespace tandem::exec
