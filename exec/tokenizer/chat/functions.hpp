#pragma once

// Functions that templates find by name.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/tokenizer/chat/chat_template.hpp"
#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// The namespaces of one rendering, which may hold each other: their owner empties them at the end.
using Namespaces = std::vector<std::shared_ptr<Namespace>>;

// Jinja's, and those that Hugging Face's transformers add. Both arguments must outlive them.
[[nodiscard]] std::map<std::string, Value, std::less<>> functions(const ChatSettings& settings,
                                                                  Namespaces& namespaces);

}  // namespace tandem::exec::chat
