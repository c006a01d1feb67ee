#include "exec/tokenizer/chat/token_stream.hpp"

namespace tandem::exec::chat {

void TokenStream::fail(const std::string& expected) const {
  const auto found = [this]() -> std::string {
    switch (current().kind) {
      case Token::Kind::data:
      case Token::Kind::output_begin:
      case Token::Kind::block_begin:
      case Token::Kind::end:
        return "the end of the template";
      case Token::Kind::output_end:
        return "'}}'";
      case Token::Kind::block_end:
        return "'%}'";
      default:
        return "'" + current().text + "'";
    }
  };
  fail_at(current().line, found() + ", expected " + expected);
}

}  // namespace tandem::exec::chat
