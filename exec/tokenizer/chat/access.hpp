#pragma once

// Attributes, items, slices and elements of values.

#include <string>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// value.name: a method or attribute, else the item of that name, else undefined, as Jinja's
// sandbox. Throws Error for what is undefined.
[[nodiscard]] Value attribute_of(Budget& budget, const Value& of, const std::string& name);
// value[index]: an item, else a method or attribute, else undefined. Throws Error as above.
[[nodiscard]] Value item_of(Budget& budget, const Value& of, const Value& index);
// item_of along "a.b.0", as filters name attributes; a whole number is an index. `otherwise` stands
// for what is undefined on the way, unless it is none.
[[nodiscard]] Value path_of(Budget& budget, const Value& of, const Value& path,
                            const Value& otherwise = Value(None{}));
// value[begin:end:step], each undefined where it was left out. Throws Error.
[[nodiscard]] Value slice_of(Budget& budget, const Value& of, const Value& begin, const Value& end,
                             const Value& step);
// The elements of a list, characters of a text, keys of a mapping, one after the other. `what`
// names the operation in the Error for values without elements.
[[nodiscard]] Next iterate(Budget& budget, const Value& of, const std::string& what);
[[nodiscard]] Values elements_of(Budget& budget, const Value& of, const std::string& what);
// len(). Throws Error.
[[nodiscard]] std::size_t size_of(Budget& budget, const Value& of, const std::string& what);
// value(arguments). Throws Error for what is no function.
[[nodiscard]] Value call_value(Budget& budget, const Value& of, const Arguments& arguments);

}  // namespace tandem::exec::chat
