#pragma once

// Attributes, items and slices of values, and calls of them.

#include <string>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// Returns value.name: a method or attribute, else the item of that name, else undefined, as in
// Jinja's sandbox. Throws Error for undefined values.
[[nodiscard]] Value attribute_of(Budget& budget, const Value& of, const std::string& name);
// Returns value[index]: an item, else a method or attribute, else undefined. Throws Error as above.
[[nodiscard]] Value item_of(Budget& budget, const Value& of, const Value& index);
// Applies item_of along "a.b.0", the notation of filters for attributes; an integer is an index.
// `otherwise`, unless it is none, replaces undefined values on the way.
[[nodiscard]] Value path_of(Budget& budget, const Value& of, const Value& path,
                            const Value& otherwise = Value(None{}));
// Returns value[begin:end:step], each undefined if it was omitted. Throws Error.
[[nodiscard]] Value slice_of(Budget& budget, const Value& of, const Value& begin, const Value& end,
                             const Value& step);
// Returns value(arguments). Throws Error for a value that is not a function.
[[nodiscard]] Value call_value(Budget& budget, const Value& of, const Arguments& arguments);

}  // namespace tandem::exec::chat
