#include "cli/flags/dtype.hpp"

#include <string_view>
#include <vector>

#include "model/error.hpp"

namespace tandem::cli {

std::optional<model::WeightFormats> dtype_of(const Options& options) {
  if (!options.has("dtype")) return std::nullopt;
  std::vector<std::string_view> names;
  names.reserve(model::kWeightFormats.size());
  for (const model::WeightFormat format : model::kWeightFormats) names.push_back(to_string(format));
  const auto format = model::find_weight_format(options.choice_or("dtype", "f32", names));
  require(format.has_value(), "a format that was chosen among names");
  return model::WeightFormats(*format);
}

}  // namespace tandem::cli
