#pragma once

// Values as JSON, as by the filter `tojson` of Hugging Face's transformers.

#include <string>
#include <string_view>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

struct JsonForm {
  bool ascii = false;    // other characters as \uXXXX
  bool sorted = false;   // by key
  bool broken = false;   // one element a line
  std::string indent{};  // of one level
  std::string between = ", ";
  std::string behind_key = ": ";
};

// Returns json.dumps(). Throws Error for a value without a JSON form.
[[nodiscard]] std::string to_json(Budget& budget, const Value& value, const JsonForm& form);

// Returns the value of a text in JSON, as json.loads(). Throws Error if it is none, and for whole
// numbers beyond 64 bits.
[[nodiscard]] Value from_json(Budget& budget, std::string_view json);

}  // namespace tandem::exec::chat
