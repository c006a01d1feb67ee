#pragma once

// Types of cached keys and values (docs/decisions/0045, 0099): chosen for a run, like the formats
// of weights.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/transformer/weight_format.hpp"

namespace tandem::model {

// Rounded when a key or value is stored:
//   f16   IEEE half precision, to nearest, ties to even
//   q8_0  of each 32 adjacent numbers of a head's key or value an f16 scale and a signed byte each,
//         as of messages (WireFormat::q8_0)
enum class CacheFormat : std::uint8_t { f32, f16, q8_0 };

// The properties of a type in addition to its kernels (exec/kernels/cache_kernels.hpp).
struct CacheRow {
  CacheFormat format;
  // The format of weights with the same blocks of numbers. Name and block are its own, and
  // Work::format and DeviceProfile::rate_of list the type under it.
  WeightFormat blocks;
  // The largest number that can be kept; 0: every finite one, as f16 scales heads beyond 65504.
  std::int64_t most;
};

// In the order of the enumerators.
inline constexpr std::array kCacheRows{
    CacheRow{CacheFormat::f32, WeightFormat::f32, 0},
    CacheRow{CacheFormat::f16, WeightFormat::f16, 0},
    CacheRow{CacheFormat::q8_0, WeightFormat::q8_0, std::int64_t{127} * 65504}};

inline constexpr auto kCacheFormats = [] {
  std::array<CacheFormat, kCacheRows.size()> all{};
  std::ranges::transform(kCacheRows, all.begin(), &CacheRow::format);
  return all;
}();
static_assert(
    [] {
      for (std::size_t i = 0; i < kCacheRows.size(); ++i) {
        if (static_cast<std::size_t>(kCacheRows.at(i).format) != i) return false;
      }
      return true;
    }(),
    "rows in the order of the enumerators");

[[nodiscard]] constexpr const CacheRow& row_of(CacheFormat format) {
  return kCacheRows.at(static_cast<std::size_t>(format));
}
// Returns the format under which Work::format and DeviceProfile::rate_of list this cache type.
[[nodiscard]] constexpr WeightFormat rated_as(CacheFormat format) { return row_of(format).blocks; }
// A head's key, and its value, is whole blocks.
[[nodiscard]] constexpr FormatBlock block_of(CacheFormat format) {
  return block_of(rated_as(format));
}
[[nodiscard]] constexpr std::string_view to_string(CacheFormat format) {
  return to_string(rated_as(format));
}
// Returns nothing if `name` is none of them.
[[nodiscard]] std::optional<CacheFormat> find_cache_format(std::string_view name);
// Returns "f32, f16, q8_0".
[[nodiscard]] std::string cache_format_names();

// Returns the bytes of so many numbers, whole blocks. Example: 64 of q8_0 take 68.
[[nodiscard]] constexpr std::int64_t cache_bytes(CacheFormat format, std::int64_t numbers) {
  const FormatBlock block = block_of(format);
  return numbers * block.bytes / block.elements;
}
// Returns the mean bytes of a number.
[[nodiscard]] constexpr double cache_number_bytes(CacheFormat format) {
  const FormatBlock block = block_of(format);
  return static_cast<double>(block.bytes) / static_cast<double>(block.elements);
}

}  // namespace tandem::model
