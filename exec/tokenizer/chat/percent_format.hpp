#pragma once

// Python's formatting of texts by %.

#include <string>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// `form` % `values`: a tuple's elements, a mapping's members by %(name), or one value. Throws Error
// for a form that Python refuses, values of other kinds, and values that are left over.
[[nodiscard]] Value percent_format(Budget& budget, const std::string& form, const Value& values);

}  // namespace tandem::exec::chat
