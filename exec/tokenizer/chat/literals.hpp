#pragma once

// Literals of texts and numbers.

#include <cstddef>
#include <string>
#include <string_view>

#include "exec/tokenizer/chat/lexer.hpp"

namespace tandem::exec::chat {

// Returns the text between quotes: `inner` without its escapes, which are Python's. Returns an
// unsupported token for halves of surrogate pairs and \N{name}. Throws Error for an unfinished
// escape.
[[nodiscard]] Token unescaped(std::string_view inner, int line);
// The length in bytes of the number that `text` begins with, and whether it is floating-point; 0:
// none. `behind_point` is true behind a '.', where x.1.2 has two integers.
struct NumberLength {
  std::size_t bytes = 0;
  bool is_real = false;
};
[[nodiscard]] NumberLength number_length(std::string_view text, bool behind_point);

}  // namespace tandem::exec::chat
