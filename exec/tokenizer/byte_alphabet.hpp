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

// Returns whether a vocabulary may lack a token for `byte`: those that UTF-8 never has, control
// characters but tab and line ends, and the first bytes of planes of which Unicode has assigned
// none or private characters alone (U+40000 and above). Published vocabularies lack some of them.
[[nodiscard]] bool may_lack_token(unsigned char byte);

}  // namespace tandem::exec
