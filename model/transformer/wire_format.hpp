#pragma once

// Formats of activations in messages: their bytes as predictors count and the executor sends them.
// The sender rounds its own copy, too (TaskKind::transfer). Announcements, token ids and control
// messages have no format.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::model {

//   f16, bf16  IEEE half precision; the first 16 bits of an f32; both to nearest, ties to even
//   q8_0       of each 32 adjacent numbers of a row an f16 scale and a signed byte each; the last
//              block of a row is as short as the row leaves it, not filled up
enum class WireFormat : std::uint8_t { f32, f16, bf16, q8_0 };

inline constexpr std::array kWireFormats{WireFormat::f32, WireFormat::f16, WireFormat::bf16,
                                         WireFormat::q8_0};

[[nodiscard]] std::string_view to_string(WireFormat format);
// Returns nothing if `name` is none of them.
[[nodiscard]] std::optional<WireFormat> find_wire_format(std::string_view name);
// "f32, f16, bf16, q8_0".
[[nodiscard]] std::string wire_format_names();

inline constexpr std::int64_t kWireScaleBytes = 2;  // of a block of q8_0

// Returns the numbers that are rounded together. Messages split a buffer at multiples of it, so the
// same numbers share a block in every message, and rounding is idempotent.
[[nodiscard]] constexpr std::int32_t wire_block(WireFormat format) {
  return format == WireFormat::q8_0 ? 32 : 1;
}

// Returns the bytes of one row of so many columns. Example: 100 columns of q8_0 are three blocks of
// 34 bytes and one of 6: 108.
[[nodiscard]] constexpr std::int64_t wire_row_bytes(WireFormat format, std::int64_t columns) {
  switch (format) {
    case WireFormat::f32:
      break;
    case WireFormat::f16:
    case WireFormat::bf16:
      return 2 * columns;
    case WireFormat::q8_0: {
      const std::int64_t block = wire_block(format);
      return columns + kWireScaleBytes * ((columns + block - 1) / block);
    }
  }
  return 4 * columns;
}

}  // namespace tandem::model
