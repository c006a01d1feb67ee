#include "cli/flags/cache_type.hpp"

#include <string_view>
#include <vector>

#include "planner/search/default_types.hpp"

namespace tandem::cli {

std::optional<model::CacheFormat> given_cache_type(const Options& options) {
  if (!options.has("cache-type")) return std::nullopt;
  std::vector<std::string_view> names;
  names.reserve(model::kCacheFormats.size());
  for (const model::CacheFormat format : model::kCacheFormats) names.push_back(to_string(format));
  return model::find_cache_format(options.choice_or("cache-type", "f32", names));
}

model::CacheFormat cache_type_of(const Options& options, const model::Transformer& transformer) {
  return given_cache_type(options).value_or(planner::default_cache(transformer));
}

}  // namespace tandem::cli
