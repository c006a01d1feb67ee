#pragma once

// Functions of Python's str, for methods and filters.

#include <optional>
#include <string>
#include <string_view>

#include "exec/tokenizer/chat/characters.hpp"
#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// No limit on replacements or splits.
inline constexpr std::int64_t kAllTimes = -1;

// str.replace(old, with, most).
[[nodiscard]] Value replaced(Budget& budget, const std::string& text, const std::string& old,
                             const std::string& with, std::int64_t most);
// str.split(separator, most), or .rsplit(); by white space if the separator is undefined or none.
// Throws Error for a separator that is not a text, or empty.
[[nodiscard]] Value split(Budget& budget, const std::string& text, const Value& separator,
                          std::int64_t most, bool from_right);
// Returns the text without the characters `which` at its ends; white space if undefined or none.
[[nodiscard]] Value stripped_of(Budget& budget, const std::string& text, bool left, bool right,
                                const Value& which);
// Returns the elements of `parts` joined by `between`; texts only if `strict`, else str() of each.
[[nodiscard]] Value joined(Budget& budget, const Value& parts, const std::string& between,
                           bool strict);
[[nodiscard]] Value cased_value(Budget& budget, const std::string& text, Case wanted);
// Pads the text with `fill` to `width` characters, on its left, its right or both.
enum class Padding { left, right, both };
[[nodiscard]] Value padded(Budget& budget, const std::string& text, std::int64_t width,
                           std::string_view fill, Padding where);

}  // namespace tandem::exec::chat
