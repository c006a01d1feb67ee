#pragma once

// Values as texts, as Python writes them.

#include <string>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// repr() of a float: the shortest digits that read as the same number.
[[nodiscard]] std::string real_text(double number);
// str(): nothing for what is undefined. Throws Error for functions and generators, of which Python
// writes addresses.
[[nodiscard]] std::string to_text(Budget& budget, const Value& value);
// repr(). Throws Error as to_text().
[[nodiscard]] std::string representation(Budget& budget, const Value& value);

}  // namespace tandem::exec::chat
