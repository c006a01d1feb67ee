#pragma once

// Penalties for tokens that a text already has, as vLLM's apply_penalties() has them:
//   l' = l / r if l > 0, else l * r          if prompt or answer has the token
//   l'' = l' - f * n - p                     if the answer has it n > 0 times
//   r, f, p: repetition (Keskar et al., 2019), frequency and presence penalty (OpenAI)

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "planner/plan/sampling.hpp"

namespace tandem::exec {

class Penalties {
 public:
  // `prompt` is read here only.
  Penalties(const planner::Sampling& sampling, std::span<const std::int32_t> prompt);
  // Returns the logits with penalties, until the next call.
  [[nodiscard]] std::span<const float> apply(std::span<const float> logits);
  // The answer's next token.
  void add(std::int32_t token) { ++counts_[token]; }

 private:
  planner::Sampling sampling_;
  std::unordered_map<std::int32_t, std::int64_t> counts_;  // in the answer; 0: in the prompt only
  std::vector<float> penalized_;                           // scratch of a call
};

}  // namespace tandem::exec
