#pragma once

// Methods of texts.

#include <string>

#include "exec/tokenizer/chat/arguments.hpp"
#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// text.name(given)
struct TextCall {
  Budget& budget;
  const std::string& name;
  const std::string& text;
  const Arguments& given;

  // Returns the arguments by bind().
  [[nodiscard]] Bound bound(std::initializer_list<std::string_view> parameters,
                            std::size_t required = 0, Naming naming = Naming::allowed) const {
    return chat::bind(name, given, parameters, required, naming);
  }
};
using TextMethod = Value (*)(const TextCall& call);

// Returns null if there is none.
[[nodiscard]] TextMethod text_method(const std::string& name);

}  // namespace tandem::exec::chat
