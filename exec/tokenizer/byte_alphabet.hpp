#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem::exec {

// Returns the character for a byte in vocabularies of byte-level BPE: the byte itself if it is
// printable Latin-1, else one from U+0100 on (Radford et al., GPT-2, 2019).
[[nodiscard]] char32_t letter_of(unsigned char byte);

// Returns the bytes of `token`, valid UTF-8; nothing if a character does not stand for a byte.
[[nodiscard]] std::optional<std::string> bytes_of_letters(std::string_view token);

// Returns whether a vocabulary may lack a token for `byte`: bytes that UTF-8 never uses, control
// characters except tab and line ends, and the first bytes of planes with no, or only private,
// characters in Unicode (U+40000 and above). Published vocabularies lack some of them.
[[nodiscard]] bool may_lack_token(unsigned char byte);

}  // namespace tandem::exec
