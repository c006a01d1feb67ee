#pragma once

// Methods of texts.

#include <string>

#include "exec/tokenizer/chat/arguments.hpp"
#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

using TextMethod = Value (*)(Budget& budget, const std::string& text, const Arguments& given);

// Returns null if there is none.
[[nodiscard]] TextMethod text_method(const std::string& name);

}  // namespace tandem::exec::chat
