#pragma once

// Python's comparisons of values.

#include <compare>
#include <string_view>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// ==
[[nodiscard]] bool equal(Budget& budget, const Value& a, const Value& b);
// Returns a `sign` b, for < <= > >=. Throws Error for values without an order.
[[nodiscard]] bool ordered(Budget& budget, std::string_view sign, const Value& a, const Value& b);
// Returns `part in whole`. Throws Error.
[[nodiscard]] bool contains(Budget& budget, const Value& whole, const Value& part);
// Returns a `sign` b, for these and == != in notin. Throws Error as they do.
[[nodiscard]] bool holds(Budget& budget, std::string_view sign, const Value& a, const Value& b);

}  // namespace tandem::exec::chat
