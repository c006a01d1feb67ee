#pragma once

// Characters of texts, as Python's str sees them. All texts are valid UTF-8.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::exec::chat {

// str.isspace() of one character.
[[nodiscard]] bool is_space(std::int32_t code);
// Returns the text without white space at the ends that `left` and `right` select.
[[nodiscard]] std::string_view stripped(std::string_view text, bool left, bool right);
// Returns the number of characters.
[[nodiscard]] std::size_t length_of(std::string_view text);
// Returns the byte at which character `index` begins; the text's size if there are fewer.
[[nodiscard]] std::size_t byte_of(std::string_view text, std::size_t index);
// str.splitlines(keepends).
[[nodiscard]] std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends);

enum class Case { upper, lower, capitalize, title, swap };
// str.upper(), .lower(), .capitalize(), .title(), .swapcase().
[[nodiscard]] std::string cased(std::string_view text, Case wanted);

// str.isupper(), .islower(), .isalpha(), ... by the method's name, which must be an
// is_character_test().
[[nodiscard]] bool passes(std::string_view method, std::string_view text);
[[nodiscard]] bool is_character_test(std::string_view method);

// Returns whether repr() writes the character unchanged.
[[nodiscard]] bool is_printable(std::int32_t code);
// Returns the value of a decimal digit of any script; -1 for other characters.
[[nodiscard]] int decimal_digit(std::int32_t code);
// Return whether a character may begin, or continue, a name.
[[nodiscard]] bool begins_name(std::int32_t code);
[[nodiscard]] bool continues_name(std::int32_t code);

}  // namespace tandem::exec::chat
