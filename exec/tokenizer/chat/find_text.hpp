#pragma once

// Searches texts in time linear in both lengths, for any input.

#include <cstddef>
#include <string_view>

#include "exec/tokenizer/chat/template_budget.hpp"

namespace tandem::exec::chat {

// Return the byte of the first occurrence of `needle` in `text` at or behind byte `from`, or of the
// last occurrence; npos if there is none. Charge the bytes read to the budget.
[[nodiscard]] std::size_t find_first(Budget& budget, std::string_view text, std::string_view needle,
                                     std::size_t from = 0);
[[nodiscard]] std::size_t find_last(Budget& budget, std::string_view text, std::string_view needle);

}  // namespace tandem::exec::chat
