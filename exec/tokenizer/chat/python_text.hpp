#pragma once

// Values as texts, as in Python.

#include <string>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// Returns repr() of a float: the shortest digits that read back as the same number.
[[nodiscard]] std::string real_text(double number);
// Returns str(): empty for undefined values. Throws Error for functions and generators, for which
// Python writes addresses.
[[nodiscard]] std::string to_text(Budget& budget, const Value& value);
// Returns repr(). Throws Error as to_text().
[[nodiscard]] std::string representation(Budget& budget, const Value& value);

}  // namespace tandem::exec::chat
