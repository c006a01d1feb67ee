#pragma once

// Scores of texts: the probabilities of their tokens, and summaries.

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::exec {

// Tokens of which the last `scored` are scored, each given all tokens before it.
struct Passage {
  std::vector<std::int32_t> tokens;
  std::int32_t scored = 0;
};

struct TokenScore {
  double log2_probability = 0.0;
  bool first_choice = false;  // whether greedy decoding would select it
};
using PassageScores = std::vector<TokenScore>;  // one a scored token, in order

// Returns log2 softmax(logits)[token], summed in double, and whether `token` is the lowest index of
// the largest logit. Throws Error if a logit is not finite, logic_error unless `token` is an index.
[[nodiscard]] TokenScore score_token(std::span<const float> logits, std::int32_t token);

// Returns the sum of -log2_probability: an ideal compressor's size in bits.
[[nodiscard]] double bits_of(const PassageScores& scores);
// Returns whether every token is the first choice.
[[nodiscard]] bool all_first_choices(const PassageScores& scores);

// Bounds of a proportion at 95% confidence.                     Wilson, JASA 22, 1927
//   (p + z^2/2n -+ z sqrt(p (1-p) / n + z^2 / 4n^2)) / (1 + z^2 / n)    p = right / count, z = 1.96
// Throws logic_error unless 0 <= right <= count and 1 <= count.
struct Interval {
  double low = 0.0;
  double high = 0.0;
};
[[nodiscard]] Interval wilson_interval(std::int64_t right, std::int64_t count);

}  // namespace tandem::exec
