#include "model/transformer/cache_format.hpp"

namespace tandem::model {

std::optional<CacheFormat> find_cache_format(std::string_view name) {
  const auto* const found =
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
