#pragma once

// Tests: the names behind `is`.

#include <string>

#include "exec/tokenizer/chat/arguments.hpp"
#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// Returns `value is name(given)`. Throws Error for a test that Jinja does not have.
[[nodiscard]] bool tested(Budget& budget, const std::string& name, const Value& value,
                          const Arguments& given);
[[nodiscard]] bool is_test(const std::string& name);

}  // namespace tandem::exec::chat
