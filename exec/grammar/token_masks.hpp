#pragma once

// Which tokens may come next at a place of a grammar.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "exec/grammar/byte_grammar.hpp"
#include "exec/grammar/grammar_walk.hpp"
#include "exec/grammar/token_trie.hpp"

namespace tandem::exec {

// A bit a token.
using TokenBits = std::vector<std::uint64_t>;

// Finds them by parts, and keeps the parts: the tokens that stay inside of the rule on top of the
// stack, or end with it, depend on its state alone. Where a rule ends within a token, the search
// goes on in the state behind its call, from those nodes of the trie, and that is the next part.
// So a part serves all stacks with these tops (cf. the token mask cache of XGrammar, Dong et al.,
// 2024). Memory is bounded: parts are found again after kMostBytes.
class TokenMasks {
 public:
  // Both outlive this.
  TokenMasks(const ByteGrammar& grammar, const TokenTrie& trie)
      : grammar_(&grammar), trie_(&trie) {}

  // Throws Error unless some token may come in every state, whatever its stack.
  void check();
  // Adds the tokens that may come at `place`, of `stacks`.
  void add(const GrammarStacks& stacks, const GrammarPlace& place, TokenBits& bits);
  // Returns the parts that were searched for so far, for tests.
  [[nodiscard]] std::size_t searches() const { return searches_; }

 private:
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20U;
  struct Part {
    std::vector<std::int32_t> tokens{};  // few of them
    TokenBits bits{};                    // or many
    std::vector<std::int32_t> nodes{};   // of the trie, at which the rule ends
  };
  // Where the search is, with a stack that is empty where the rule begins.
  struct Situation {
    GrammarPlaces places{};
    std::array<std::int32_t, 256> next{};  // by byte
  };
  static constexpr std::int32_t kUnknown = -2;
  static constexpr std::int32_t kDead = -1;

  // Returns the part of `state` from the nodes of the part `from`, or from the root (negative).
  std::int32_t part(std::int32_t from, GrammarState state);
  std::int32_t situation(GrammarPlaces places);
  std::int32_t next(std::int32_t situation, unsigned char byte);
  void search(std::size_t node, std::int32_t situation, Part& found);
  void forget();
  void count(const GrammarPlaces& places);

  const ByteGrammar* grammar_;
  const TokenTrie* trie_;
  std::size_t searches_ = 0;
  std::size_t visited_ = 0;  // places
  bool limited_ = false;     // within check()
  std::size_t bytes_ = 0;
  std::vector<Part> parts_;
  std::unordered_map<std::uint64_t, std::int32_t> known_parts_;
  GrammarStacks stacks_;  // of situations
  std::vector<Situation> situations_;
  std::map<std::vector<GrammarPlace>, std::array<std::int32_t, 2>> known_;  // by whether it ends
  std::vector<std::int32_t> path_;                                          // scratch of search()
};

}  // namespace tandem::exec
