#pragma once

// Words that people type: lists of them, and guesses at misspelt ones.

#include <string>
#include <string_view>
#include <vector>

namespace tandem::model {

// Returns `text` with the letters of ASCII in lower case.
[[nodiscard]] std::string lower_case(std::string_view text);

// Returns `text` without the blanks around it.
[[nodiscard]] std::string_view trimmed(std::string_view text);

// Returns the parts of "a, b,c" between the separators, without the blanks around each. A missing
// part is empty: "a,,b" has three parts, and "" has one.
[[nodiscard]] std::vector<std::string> split_list(std::string_view text, char separator = ',');

// Returns ", did you mean 'KNOWN'?" with the known word of which `word` lacks a few characters, or
// else that which is nearest() to it, whatever the case of letters; nothing if there is none.
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       const std::vector<std::string_view>& known);

}  // namespace tandem::model
