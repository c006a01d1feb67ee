#pragma once

// Tokens that the form of an answer excludes: their logits become -infinity.

#include <memory>
#include <span>
#include <vector>

#include "exec/grammar/token_grammar.hpp"

namespace tandem::exec {

class GrammarMask {
 public:
  explicit GrammarMask(std::shared_ptr<const TokenGrammar> grammar) : walk_(std::move(grammar)) {}
  // Returns the logits, until the next call: those of tokens that may come next, at least the
  // smallest finite number, and -infinity. Throws logic_error if there are not as many as tokens.
  [[nodiscard]] std::span<const float> apply(std::span<const float> logits);
  // The answer's next token.
  void add(std::int32_t token) { walk_.push(token); }

 private:
  TokenWalk walk_;
  TokenBits allowed_;          // scratch of a call
  std::vector<float> masked_;  // scratch of a call
};

}  // namespace tandem::exec
