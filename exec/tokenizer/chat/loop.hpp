#pragma once

// The variable `loop` of a template's loop.

#include <optional>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// Iterates over elements, looking one ahead if a template asks for the next one.
struct Loop {
  Next next{};
  std::optional<std::size_t> length{};  // known in advance except for generators
  std::optional<Value> ahead{};         // the next element, if `looked`
  bool looked = false;
  std::optional<Value> before{};
  Value current{};
  std::int64_t index0 = -1;
  std::int64_t level0 = 0;  // depth of a recursive loop
  Values changed{};         // the arguments of the last loop.changed()
  bool asked_changed = false;
  std::function<Value(const Value&)> recurse{};  // empty: not recursive
  int depth = 1;

  // Moves to the next element; false at the end.
  bool advance();
  // Looks one ahead.
  const std::optional<Value>& peek();
};

// Returns the attribute `name` of the value, a loop; nothing if there is none.
[[nodiscard]] std::optional<Value> loop_attribute(Budget& budget, const Value& loop,
                                                  const std::string& name);

}  // namespace tandem::exec::chat
