#pragma once

// Types of cached keys and values (docs/decisions/0045): chosen for a run, like the formats of
// weights.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::model {

// f16: IEEE half precision, rounded to nearest, ties to even, when a key or value is stored.
enum class CacheFormat : std::uint8_t { f32, f16 };

inline constexpr std::array kCacheFormats{CacheFormat::f32, CacheFormat::f16};

// The largest number of an F16 cache; a key or value beyond it is an error.
inline constexpr float kMostHalf = 65504.0F;

[[nodiscard]] std::string_view to_string(CacheFormat format);
// Returns nothing if `name` is none of them.
[[nodiscard]] std::optional<CacheFormat> find_cache_format(std::string_view name);
// Returns "f32, f16".
[[nodiscard]] std::string cache_format_names();

// Returns the bytes of one number.
[[nodiscard]] constexpr std::int64_t cache_element_bytes(CacheFormat format) {
  switch (format) {
    case CacheFormat::f32:
      break;
    case CacheFormat::f16:
      return 2;
  }
  return 4;
}

}  // namespace tandem::model
