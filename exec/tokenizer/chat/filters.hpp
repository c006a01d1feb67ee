#pragma once

// Filters.

#include <map>
#include <string>

#include "exec/tokenizer/chat/arguments.hpp"
#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

using Filter = Value (*)(Budget& budget, const Value& value, const Arguments& given);
using Filters = std::map<std::string, Filter>;

// Filters of texts and numbers, of lists and mappings, and those that apply other filters or tests.
[[nodiscard]] const Filters& value_filters();
[[nodiscard]] const Filters& list_filters();
[[nodiscard]] const Filters& generating_filters();

// Returns value | name(given). Throws Error for an unsupported filter.
[[nodiscard]] Value filtered(Budget& budget, const std::string& name, const Value& value,
                             const Arguments& given);
// Returns whether Jinja has the filter; it may be unsupported here.
[[nodiscard]] bool is_filter(const std::string& name);

}  // namespace tandem::exec::chat
