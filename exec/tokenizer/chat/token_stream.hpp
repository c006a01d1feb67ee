#pragma once

// The stream of tokens that parsers read.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/tokenizer/chat/lexer.hpp"

namespace tandem::exec::chat {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] const Token& current() const { return tokens_[at_]; }
  // Returns the token behind the current one; the end if there is none.
  [[nodiscard]] const Token& following() const {
    return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_];
  }
  [[nodiscard]] bool is(Token::Kind kind) const { return current().kind == kind; }
  [[nodiscard]] bool is_sign(std::string_view sign) const {
    return is(Token::Kind::sign) && current().text == sign;
  }
  [[nodiscard]] bool is_name(std::string_view name) const {
    return is(Token::Kind::name) && current().text == name;
  }
  const Token& take() {
    const Token& taken = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return taken;
  }
  bool take_sign(std::string_view sign) { return is_sign(sign) && (take(), true); }
  bool take_name(std::string_view name) { return is_name(name) && (take(), true); }
  void expect_sign(std::string_view sign) {
    if (!take_sign(sign)) fail("'" + std::string(sign) + "'");
  }
  // Throws Error unless the statement ends here.
  void expect_block_end() {
    if (!is(Token::Kind::block_end)) fail("the end of the statement");
    take();
  }
  std::string expect_name() {
    if (!is(Token::Kind::name)) fail("a name");
    return take().text;
  }
  [[noreturn]] void fail(const std::string& expected) const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace tandem::exec::chat
