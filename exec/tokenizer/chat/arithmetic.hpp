#pragma once

// Python's arithmetic of values.

#include <string_view>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// Returns a `sign` b, for + - * / // % **. Throws Error for values without that operation, and for
// integers beyond 64 bits, which Python supports.
[[nodiscard]] Value calculated(Budget& budget, std::string_view sign, const Value& a,
                               const Value& b);
// Returns -value or +value. Throws Error as above.
[[nodiscard]] Value with_sign(std::string_view sign, const Value& value);
// Throws Error for a text marked by the filter `safe`: Python would escape what is added to it.
void expect_unmarked(const Value& value, const std::string& what);

}  // namespace tandem::exec::chat
