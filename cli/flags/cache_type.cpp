#include "cli/flags/cache_type.hpp"

#include <string_view>
#include <vector>

namespace tandem::cli {

model::CacheFormat cache_type_of(const Options& options) {
  std::vector<std::string_view> names;
  names.reserve(model::kCacheFormats.size());
  for (const model::CacheFormat format : model::kCacheFormats) names.push_back(to_string(format));
  return *model::find_cache_format(options.choice_or("cache-type", "f32", names));
}

}  // namespace tandem::cli
