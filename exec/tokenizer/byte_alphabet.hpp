#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem::exec {

// The character that stands for a byte in vocabularies of byte-level BPE: itself where it is
// printable Latin-1, else one from U+0100 on (Radford et al., GPT-2, 2019).
[[nodiscard]] char32_t letter_of(unsigned char byte);

// The bytes that `token`, valid UTF-8, stands for; none if it has a character that is no byte's.
[[nodiscard]] std::optional<std::string> bytes_of_letters(std::string_view token);

}  // namespace tandem::exec
