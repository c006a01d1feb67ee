#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::exec {

// Returns `text` with every byte outside UTF-8 characters replaced by U+FFFD.
[[nodiscard]] std::string valid_utf8(std::string_view text);

// Moves the complete characters from `pending` to the result; `last`: no byte follows, so an
// unfinished character is invalid. Invalid bytes, and control characters other than newline and
// tab, become U+FFFD.
[[nodiscard]] std::string take_printable(std::string& pending, bool last);

struct Utf8Character {
  std::int32_t code = -1;  // negative: none
  std::size_t bytes = 0;
};

// Returns the character of `text`, valid UTF-8, that begins or ends at `at`; none at the text's end
// or beginning.
[[nodiscard]] Utf8Character character_at(std::string_view text, std::size_t at);
[[nodiscard]] Utf8Character character_before(std::string_view text, std::size_t at);

// Returns `character` in UTF-8. Any code point up to U+10FFFF.
[[nodiscard]] std::string to_utf8(char32_t character);

}  // namespace tandem::exec
