#pragma once

// Attributes of the variable `loop`.

#include <optional>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// Returns the attribute `name` of the value, a loop; nothing if there is none.
[[nodiscard]] std::optional<Value> loop_attribute(Budget& budget, const Value& loop,
                                                  const std::string& name);

}  // namespace tandem::exec::chat
