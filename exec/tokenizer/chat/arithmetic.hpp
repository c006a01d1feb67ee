#pragma once

// Python's arithmetic of values.

#include <string_view>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// a `sign` b, of + - * / // % **. Throws Error for values that have no such operation, and for
// whole numbers beyond 64 bits, which Python has.
[[nodiscard]] Value calculated(Budget& budget, std::string_view sign, const Value& a,
                               const Value& b);
// -value, or +value. Throws Error as above.
[[nodiscard]] Value with_sign(std::string_view sign, const Value& value);
// A floating-point number as a whole one, without its fraction. Throws Error as above.
[[nodiscard]] Value truncated(double number);
// Throws Error for a text that the filter `safe` marked: Python would escape what is added to it.
void expect_unmarked(const Value& value, const std::string& what);

}  // namespace tandem::exec::chat
