#pragma once

// Elements of values, one after the other.

#include <string>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// Iterates over the elements of a list, characters of a text or keys of a mapping. `what` names the
// operation in the Error for values without elements.
[[nodiscard]] Next iterate(Budget& budget, const Value& of, const std::string& what);
[[nodiscard]] Values elements_of(Budget& budget, const Value& of, const std::string& what);
// Returns len(). Throws Error.
[[nodiscard]] std::size_t size_of(Budget& budget, const Value& of, const std::string& what);
}  // namespace tandem::exec::chat
