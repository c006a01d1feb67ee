#include "exec/grammar/token_grammar.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::exec {

TokenGrammar::TokenGrammar(ByteGrammar grammar, std::shared_ptr<const TokenTrie> trie,
                           std::vector<std::int64_t> stop_tokens)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      stop_tokens_(std::move(stop_tokens)),
      masks_(grammar_, *trie_) {
  std::erase_if(stop_tokens_, [this](std::int64_t token) {
    return token < 0 || token >= static_cast<std::int64_t>(trie_->vocab());
  });
  if (stop_tokens_.empty())
    throw Error(
        "grammar: the model has no token that ends a text, expected one, or an answer could not "
        "end where it is complete; name it in the model's config.json as eos_token_id");
  masks_.check();
}

void TokenGrammar::allow(const GrammarStacks& stacks, const GrammarPlaces& at,
                         TokenBits& bits) const {
  bits.assign((trie_->vocab() + 63) / 64, 0);
  if (at.ends) {
    for (const std::int64_t token : stop_tokens_)
      bits[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1}
                                                    << (static_cast<std::size_t>(token) % 64);
  }
  const std::lock_guard lock(mutex_);
  for (const GrammarPlace& place : at.places) masks_.add(stacks, place, bits);
}

TokenWalk::TokenWalk(std::shared_ptr<const TokenGrammar> grammar)
    : grammar_(std::move(grammar)),
      at_(places_from(grammar_->bytes(), stacks_, {{grammar_->bytes().start(0)}})) {}

void TokenWalk::push(std::int32_t token) {
  // Places of alternatives with the same beginning multiply with their depth: the first are kept.
  constexpr std::size_t kKept = 256;
  // More than masks follow from one place, so that what they allow is found.
  constexpr std::size_t kMostWithin = 1U << 16U;
  const auto stops = grammar_->stop_tokens();
  if (std::ranges::find(stops, token) != stops.end()) {
    require(at_.ends, "grammar: a text ends where it may");
    return;
  }
  const std::string bytes = grammar_->trie().bytes_of(token);
  require(!bytes.empty(), "grammar: tokens with text");
  for (const char byte : bytes)
    at_ = places_after(grammar_->bytes(), stacks_, at_, static_cast<unsigned char>(byte),
                       kMostWithin);
  require(!at_.dead(), "grammar: tokens that it allows");
  if (at_.places.size() > kKept) at_.places.resize(kKept);
}

}  // namespace tandem::exec
