#include "exec/grammar/token_grammars.hpp"

#include <algorithm>

#include "exec/grammar/json_schema.hpp"

namespace tandem::exec {

TokenGrammars::TokenGrammars(const Tokenizer& tokenizer, std::vector<std::int64_t> stop_tokens,
                             std::int64_t vocab)
    : tokenizer_(&tokenizer), stop_tokens_(std::move(stop_tokens)), vocab_(vocab) {}

std::shared_ptr<const TokenGrammar> TokenGrammars::of_schema(const std::string& schema,
                                                             const std::string& place) {
  const auto known = std::ranges::find(kept_, schema, [](const auto& kept) { return kept.first; });
  if (known != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, known);
    return kept_.front().second;
  }
  ByteGrammar grammar = json_schema_grammar(std::string_view(schema), place);
  if (!trie_) trie_ = std::make_shared<const TokenTrie>(*tokenizer_, stop_tokens_, vocab_);
  kept_.emplace_front(
      schema, std::make_shared<const TokenGrammar>(std::move(grammar), trie_, stop_tokens_));
  if (kept_.size() > kMostKept) kept_.pop_back();
  return kept_.front().second;
}

}  // namespace tandem::exec
