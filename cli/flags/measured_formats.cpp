#include "cli/flags/measured_formats.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "cli/flags/dtype.hpp"
#include "model/base/error.hpp"

namespace tandem::cli {
namespace {

std::vector<std::string_view> measurable_formats() {
  std::vector<std::string_view> names;
  for (const model::WeightFormat format : model::kWeightFormats) {
    if (format != model::WeightFormat::f32) names.push_back(to_string(format));
  }
  names.emplace_back("all");
  return names;
}

}  // namespace

bool fits(model::Transformer transformer, model::WeightFormat format) {
  transformer.formats = model::WeightFormats(format);
  try {
    transformer.validate();
  } catch (const Error&) {
    return false;
  }
  return true;
}

std::vector<model::WeightFormat> measured_formats(const Options& options,
                                                  const model::Transformer& transformer) {
  std::vector<model::WeightFormat> formats;
  for (const std::string& text : options.all("dtype")) {
    const std::string name =
        format_named(text, measurable_formats(), "; f32 is measured in any case");
    const auto format = model::find_weight_format(name);
    for (const model::WeightFormat known : model::kWeightFormats) {
      const bool wanted = known != model::WeightFormat::f32 &&
                          (known == format || (name == "all" && fits(transformer, known)));
      if (!wanted) continue;
      if (std::ranges::find(formats, known) != formats.end())
        throw Usage("flag '--dtype': " + std::string(to_string(known)) +
                    " is given twice; expected each format once");
      formats.push_back(known);
    }
  }
  return formats;
}

std::vector<model::CacheFormat> measured_caches(const Options& options,
                                                model::Transformer transformer,
                                                bool narrow_weights) {
  std::vector<model::CacheFormat> caches;
  for (const std::string& text : options.all("cache-type")) {
    const auto format = model::find_cache_format(text);
    if (!format || *format == model::CacheFormat::f32)
      throw Usage("flag '--cache-type': '" + text + "', expected one of " +
                  model::cache_format_names() + "; f32 is measured in any case");
    if (std::ranges::find(caches, *format) != caches.end())
      throw Usage("flag '--cache-type': " + text + " is given twice; expected each type once");
    caches.push_back(*format);
  }
  constexpr auto kUsual = model::CacheFormat::f16;
  if (narrow_weights && std::ranges::find(caches, kUsual) == caches.end()) caches.push_back(kUsual);
  std::ranges::sort(caches);
  for (const model::CacheFormat cache : caches) {
    transformer.cache = cache;
    transformer.validate();
  }
  return caches;
}

}  // namespace tandem::cli
