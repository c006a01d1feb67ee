#pragma once

// What a person carries from one device to the other.

#include <string>
#include <string_view>

#include "exec/transport/tls.hpp"

namespace tandem::exec {

// Eight decimal digits (26.6 bits), uniformly drawn, as "4821-9370".
[[nodiscard]] std::string random_pairing_code();

// Returns `text` as random_pairing_code() writes it: eight digits; blanks and hyphens are ignored.
// Throws Error for anything else, without repeating it.
[[nodiscard]] std::string parse_pairing_code(std::string_view text);

// 128 bits of a connection's SHA-256, as eight groups of four hexadecimal digits. Equal at both
// ends unless somebody ends the connection in between.
[[nodiscard]] std::string fingerprint_of(const ChannelBinding& binding);

}  // namespace tandem::exec
