#pragma once

// Values as JSON, as Hugging Face's transformers have the filter `tojson`.

#include <string>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

struct JsonForm {
  bool ascii = false;    // other characters as \uXXXX
  bool sorted = false;   // keys
  bool broken = false;   // an element a line
  std::string indent{};  // of a level
  std::string between = ", ";
  std::string behind_key = ": ";
};

// json.dumps(). Throws Error for what is no JSON value.
[[nodiscard]] std::string to_json(Budget& budget, const Value& value, const JsonForm& form);

}  // namespace tandem::exec::chat
