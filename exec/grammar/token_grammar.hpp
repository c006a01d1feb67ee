#pragma once

// A grammar over the tokens of a model: what an answer must be.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "exec/grammar/byte_grammar.hpp"
#include "exec/grammar/grammar_walk.hpp"
#include "exec/grammar/token_masks.hpp"
#include "exec/grammar/token_trie.hpp"

namespace tandem::exec {

// Shared by the requests with one grammar. Thread-safe.
class TokenGrammar {
 public:
  // `trie` has none of `stop_tokens`, which end a text where the grammar allows it. Throws Error if
  // there is none, or no token for some byte.
  TokenGrammar(ByteGrammar grammar, std::shared_ptr<const TokenTrie> trie,
               std::vector<std::int64_t> stop_tokens);

  [[nodiscard]] const ByteGrammar& bytes() const { return grammar_; }
  [[nodiscard]] const TokenTrie& trie() const { return *trie_; }
  [[nodiscard]] std::span<const std::int64_t> stop_tokens() const { return stop_tokens_; }
  // bits = the tokens that may come next.
  void allow(const GrammarStacks& stacks, const GrammarPlaces& at, TokenBits& bits) const;

 private:
  ByteGrammar grammar_;
  std::shared_ptr<const TokenTrie> trie_;
  std::vector<std::int64_t> stop_tokens_;
  mutable std::mutex mutex_;
  mutable TokenMasks masks_;
};

// One text of it, token by token.
class TokenWalk {
 public:
  explicit TokenWalk(std::shared_ptr<const TokenGrammar> grammar);

  // bits = the tokens that may come next; the stop tokens where the text may end. At least one.
  void allow(TokenBits& bits) const { grammar_->allow(stacks_, at_, bits); }
  // Throws logic_error for a token that is not allowed.
  void push(std::int32_t token);
  // Returns whether the text so far conforms to the grammar.
  [[nodiscard]] bool may_end() const { return at_.ends; }

 private:
  std::shared_ptr<const TokenGrammar> grammar_;
  GrammarStacks stacks_;
  GrammarPlaces at_;
};

// Returns whether `token` is among `bits`.
[[nodiscard]] inline bool has_token(const TokenBits& bits, std::size_t token) {
  return ((bits[token / 64] >> (token % 64)) & 1U) != 0;
}

}  // namespace tandem::exec
