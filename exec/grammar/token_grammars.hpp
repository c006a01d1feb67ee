#pragma once

// The grammars of one model's answers, by their schemas.

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/grammar/token_grammar.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

class TokenGrammars {
 public:
  // `tokenizer` outlives this. `vocab`: the number of logits.
  TokenGrammars(const Tokenizer& tokenizer, std::vector<std::int64_t> stop_tokens,
                std::int64_t vocab);

  // Returns the grammar of a JSON schema; the same for the same text while it is among the
  // kMostKept last ones. Throws as json_schema_grammar(), and Error for a model without a stop
  // token.
  [[nodiscard]] std::shared_ptr<const TokenGrammar> of_schema(const std::string& schema,
                                                              const std::string& place);

 private:
  static constexpr std::size_t kMostKept = 16;
  const Tokenizer* tokenizer_;
  std::vector<std::int64_t> stop_tokens_;
  std::int64_t vocab_;
  std::shared_ptr<const TokenTrie> trie_;  // made when it is first needed
  // Used last in front.
  std::list<std::pair<std::string, std::shared_ptr<const TokenGrammar>>> kept_;
};

// The schema of any JSON object.
inline constexpr const char* kAnyObject = R"({"type":"object"})";

}  // namespace tandem::exec
