#pragma once

// Functions that templates call by name.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// The namespaces of one rendering, which may refer to each other: their owner clears them at the
// end.
using Namespaces = std::vector<std::shared_ptr<Namespace>>;

// Returns Jinja's functions and those of Hugging Face's transformers. `today`: YYYY-MM-DD; empty:
// the real date. `namespaces` must outlive them.
[[nodiscard]] std::map<std::string, Value, std::less<>> functions(const std::string& today,
                                                                  Namespaces& namespaces);

}  // namespace tandem::exec::chat
