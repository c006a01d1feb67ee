#pragma once

// Numbers, read and rounded as in Python.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::exec::chat {

// Throws Error for a whole number beyond 64 bits, which Python supports.
[[noreturn]] void fail_too_large();
// Returns int(text, base); nothing if it is not a number. Throws Error for one beyond 64 bits, or a
// base other than 0 and 2 to 36.
[[nodiscard]] std::optional<std::int64_t> read_whole(std::string_view text, std::int64_t base);
// Returns float(text); nothing if it is not a number.
[[nodiscard]] std::optional<double> read_real(std::string_view text);
// Returns the number without its fraction. Throws Error beyond 64 bits.
[[nodiscard]] std::int64_t truncated(double number);
// Returns round(number, digits) for 0 to 300 digits: to nearest, ties to even.
[[nodiscard]] double rounded(double number, int digits);

}  // namespace tandem::exec::chat
