#pragma once

// Values of chat templates, and what Python does with them.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tandem::exec::chat {

// What a name that was never set means is `discarded`.
using Value = nlohmann::ordered_json;

[[nodiscard]] Value undefined();
[[nodiscard]] bool is_undefined(const Value& value);
// Python's bool(): numbers but 0, texts, lists and mappings but empty ones.
[[nodiscard]] bool is_true(const Value& value);
// Python's str() of texts, numbers and truth values; nothing of what is undefined. Throws Error of
// lists and mappings, which Python would write in its own way.
[[nodiscard]] std::string to_text(const Value& value);
// Python's json.dumps(ensure_ascii=False), of `indent` spaces a level unless negative.
[[nodiscard]] std::string to_json(const Value& value, int indent);
// Python's ==: numbers and truth values by value, lists by elements, mappings in any order.
[[nodiscard]] bool equal(const Value& a, const Value& b);
// Python's <, of numbers or of texts. Throws Error for others.
[[nodiscard]] bool less(const Value& a, const Value& b);
// Python's `in`: a text within a text, an element of a list, a key of a mapping. Throws Error.
[[nodiscard]] bool contains(const Value& whole, const Value& part);
// `text`. Throws Error if it is longer than 16 MiB: templates are foreign.
[[nodiscard]] std::string bounded(std::string text);
// Bytes, about, that a copy takes. Throws Error beyond 64 MiB or 100 levels.
[[nodiscard]] std::size_t weight(const Value& value);
// "a text", "a list", ... for messages.
[[nodiscard]] std::string kind_of(const Value& value);

// Without white space (Python's str.isspace) at the ends that `left` and `right` say.
[[nodiscard]] std::string stripped(std::string_view text, bool left, bool right);

}  // namespace tandem::exec::chat
