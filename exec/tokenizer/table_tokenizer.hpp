#pragma once

// What tokenizers with a table of tokens share.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/tokenizer/added_tokens.hpp"
#include "exec/tokenizer/token_table.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

class TableTokenizer : public Tokenizer {
 public:
  using Ids = std::vector<std::int32_t>;

  [[nodiscard]] Ids encode(std::string_view text, WrittenTokens written) const override;
  [[nodiscard]] std::string guarded(std::string_view text) const override {
    return tokens_.guarded(text);
  }
  [[nodiscard]] std::string piece(std::int32_t id) const override { return table_.bytes(id); }
  [[nodiscard]] std::int64_t vocab() const override { return table_.vocab(); }
  [[nodiscard]] std::int64_t bos_token() const override {
    return front_.empty() ? -1 : front_.front();
  }
  [[nodiscard]] std::ptrdiff_t tokens_in_front() const override { return std::ssize(front_); }
  [[nodiscard]] std::span<const std::int64_t> eos_tokens() const override { return eos_; }

 protected:
  TableTokenizer(std::int64_t vocab, const std::string& source) : table_(vocab, source) {}

  // What stands before a part of a text.
  enum class Before { nothing, token, text };
  // Appends the ids of a part without tokens of `tokens_`, a fragment's text as of unguarded().
  virtual void append(std::string_view part, Before before, WrittenTokens written,
                      Ids& ids) const = 0;

  TableTokenizer(const TableTokenizer&) = delete;
  TableTokenizer& operator=(const TableTokenizer&) = delete;

  TokenTable table_;
  AddedTokens tokens_;  // searched in a text before anything else
  Ids front_;           // around every text
  Ids back_;
  std::vector<std::int64_t> eos_;
};

}  // namespace tandem::exec
