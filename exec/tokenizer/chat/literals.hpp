#pragma once

// Texts and numbers as templates write them.

#include <cstddef>
#include <string>
#include <string_view>

#include "exec/tokenizer/chat/lexer.hpp"

namespace tandem::exec::chat {

// The text between quotes: `inner` without its escapes, which are Python's. An unsupported token
// for halves of surrogate pairs and \N{name}. Throws Error for an escape that does not end.
[[nodiscard]] Token unescaped(std::string_view inner, int line);
// Bytes of the number that `text` begins with, and whether it is a floating-point one; 0: none.
// `behind_point` is true behind a '.', where x.1.2 has two whole numbers.
struct NumberLength {
  std::size_t bytes = 0;
  bool is_real = false;
};
[[nodiscard]] NumberLength number_length(std::string_view text, bool behind_point);

}  // namespace tandem::exec::chat
