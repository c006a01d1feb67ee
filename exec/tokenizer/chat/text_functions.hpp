#pragma once

// What Python's str does, for methods and filters.

#include <optional>
#include <string>
#include <string_view>

#include "exec/tokenizer/chat/characters.hpp"
#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// At most this many times: all of them.
inline constexpr std::int64_t kAllTimes = -1;

// str.replace(old, with, most).
[[nodiscard]] Value replaced(Budget& budget, const std::string& text, const std::string& old,
                             const std::string& with, std::int64_t most);
// str.split(separator, most), or .rsplit(); by white space if the separator is undefined or none.
// Throws Error for a separator that is no text, or empty.
[[nodiscard]] Value split(Budget& budget, const std::string& text, const Value& separator,
                          std::int64_t most, bool from_right);
// Without any of the characters `which` at its ends; white space if that is undefined or none.
[[nodiscard]] Value stripped_of(Budget& budget, const std::string& text, bool left, bool right,
                                const Value& which);
// The elements of `parts`, `between` them; texts only if `strict`, else str() of each.
[[nodiscard]] Value joined(Budget& budget, const Value& parts, const std::string& between,
                           bool strict);
[[nodiscard]] Value cased_value(Budget& budget, const std::string& text, Case wanted);
// `fill` around the text up to `width` characters, on its left, its right or both.
enum class Padding { left, right, both };
[[nodiscard]] Value padded(Budget& budget, const std::string& text, std::int64_t width,
                           std::string_view fill, Padding where);

}  // namespace tandem::exec::chat
