#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem::exec {

// Normalisation forms of Unicode (UAX 15).
enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

// Finds a form by its name, "NFC" and so on.
[[nodiscard]] std::optional<UnicodeForm> unicode_form_of(std::string_view name);

// Returns `text`, valid UTF-8, in that form.
[[nodiscard]] std::string normalized(std::string_view text, UnicodeForm form);

}  // namespace tandem::exec
