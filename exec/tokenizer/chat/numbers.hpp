#pragma once

// Numbers in texts, as Python reads and rounds them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::exec::chat {

// int(text, base); nothing for what is no number. Throws Error for one beyond 64 bits, or a base
// other than 0 and 2 to 36.
[[nodiscard]] std::optional<std::int64_t> read_whole(std::string_view text, std::int64_t base);
// float(text); nothing for what is no number.
[[nodiscard]] std::optional<double> read_real(std::string_view text);
// round(number, digits), of 0 to 300 digits: the nearest, of two the even one.
[[nodiscard]] double rounded(double number, int digits);

}  // namespace tandem::exec::chat
