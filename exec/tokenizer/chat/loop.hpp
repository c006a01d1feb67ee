#pragma once

// The `loop` of a template's loop.

#include <optional>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// Goes through elements, looking one ahead where a template asks for what comes next.
struct Loop {
  Next next{};
  std::optional<std::size_t> length{};  // known at once of all but generators
  std::optional<Value> ahead{};         // the element after this one, if `looked`
  bool looked = false;
  std::optional<Value> before{};
  Value current{};
  std::int64_t index0 = -1;
  std::int64_t level0 = 0;  // of a recursive loop
  Values changed{};         // the arguments of the last loop.changed()
  bool asked_changed = false;
  std::function<Value(const Value&)> recurse{};  // empty: not recursive
  int depth = 1;

  // Moves to the next element; false at the end.
  bool advance();
  // Looks one ahead.
  const std::optional<Value>& peek();
};

// The attribute `name` of the value, a loop; nothing if there is none.
[[nodiscard]] std::optional<Value> loop_attribute(Budget& budget, const Value& loop,
                                                  const std::string& name);

}  // namespace tandem::exec::chat
