#pragma once

// Methods and attributes of values.

#include <optional>
#include <string>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// Returns the method or attribute `name` of a Python value: a function, a member of a namespace, or
// undefined for what Jinja's sandbox hides; nothing if Python's value has none. An unsupported
// method is a function that throws Error when it is called.
[[nodiscard]] std::optional<Value> method_of(Budget& budget, const Value& of,
                                             const std::string& name);

}  // namespace tandem::exec::chat
