#pragma once

// Python's text formatting by %.

#include <string>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// Returns `form` % `values`: a tuple's elements, a mapping's members by %(name), or one value.
// Throws Error for a form that Python rejects, values of other kinds, and unused values.
[[nodiscard]] Value percent_format(Budget& budget, const std::string& form, const Value& values);

}  // namespace tandem::exec::chat
