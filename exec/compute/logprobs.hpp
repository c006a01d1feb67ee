#pragma once

// Log-probabilities of tokens, natural logarithms of softmax(logits): the model's distribution,
// before penalties, temperature and the steps after it, as vLLM's "raw_logprobs".

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/compute/shortlist.hpp"

namespace tandem::exec {

struct TokenLogprob {
  std::int32_t id = 0;
  double logprob = 0.0;  // may be -infinity
};

// A token of an answer, and the likeliest tokens at its place.
struct TokenLogprobs {
  TokenLogprob chosen{};
  std::vector<TokenLogprob> best{};  // likeliest first, of equal ones the smaller id
};

// Returns the log-probability of `chosen`, and those of the `count` likeliest tokens. Throws
// logic_error unless `scores` has them all.
[[nodiscard]] TokenLogprobs logprobs_of(const Scores& scores, std::int32_t chosen,
                                        std::size_t count);

}  // namespace tandem::exec
