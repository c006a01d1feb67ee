#include "model/transformer/cache_format.hpp"

#include <algorithm>
#include <stdexcept>

namespace tandem::model {

std::string_view to_string(CacheFormat format) {
  switch (format) {
    case CacheFormat::f32:
      return "f32";
    case CacheFormat::f16:
      return "f16";
  }
  throw std::logic_error("cache format out of range");
}

std::optional<CacheFormat> find_cache_format(std::string_view name) {
  const auto found =
      std::ranges::find(kCacheFormats, name, [](CacheFormat format) { return to_string(format); });
  if (found == kCacheFormats.end()) return std::nullopt;
  return *found;
}

std::string cache_format_names() {
  std::string names;
  for (const CacheFormat format : kCacheFormats)
    names.append(names.empty() ? "" : ", ").append(to_string(format));
  return names;
}

}  // namespace tandem::model
