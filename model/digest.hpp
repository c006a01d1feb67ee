#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tandem::model {

// Lower-case hexadecimal SHA-256 of the bytes (64 characters).
[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);
[[nodiscard]] std::string sha256_hex(std::string_view text);

}  // namespace tandem::model
