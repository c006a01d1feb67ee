#pragma once

// A template's text, outputs and statements, and the words of the latter two.

#include <string>
#include <string_view>
#include <vector>

namespace tandem::exec::chat {

struct Piece {
  enum class Kind { text, output, statement };
  Kind kind = Kind::text;
  std::string text{};  // with white space as trim_blocks and lstrip_blocks leave it
  int line = 1;
};

struct Word {
  enum class Kind { name, number, text, sign, end };
  Kind kind = Kind::end;
  std::string text{};  // of a text without quotes and escapes
};

// Comments are gone, and every line ends by \n alone. Throws Error for what does not end.
[[nodiscard]] std::vector<Piece> pieces(std::string_view source);
// The last one is an end. Throws Error naming `line`.
[[nodiscard]] std::vector<Word> words(const std::string& text, int line);

}  // namespace tandem::exec::chat
