#pragma once

// Parses chat templates.

#include <string_view>

#include "exec/tokenizer/chat/syntax.hpp"

namespace tandem::exec::chat {

// Parses a template with the settings of Hugging Face's transformers. Throws Error (line, finding,
// expected) for invalid Jinja.
[[nodiscard]] Template parse(std::string_view source);

}  // namespace tandem::exec::chat
