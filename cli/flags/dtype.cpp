#include "cli/flags/dtype.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "model/transformer/format_choice.hpp"

namespace tandem::cli {
std::optional<model::WeightFormats> dtype_of(const Options& options,
                                             const model::Transformer& transformer) {
  if (!options.has("dtype")) return std::nullopt;
  const std::vector<std::string_view> names = model::format_choices();
  const std::string name = options.choice_or("dtype", "f32", names);
  options.remark(model::substitution_remark(name, transformer));
  return model::chosen_formats(name, transformer);
}

std::vector<model::WeightFormats> dtypes_of(const Options& options,
                                            const model::Transformer& transformer) {
  std::vector<model::WeightFormats> all;
  std::istringstream text(options.text_or("dtype", ""));
  for (std::string name; std::getline(text, name, ',');) {
    const auto format = model::chosen_formats(name, transformer);
    if (!format)
      throw Usage("flag '--dtype': '" + name + "', expected " + model::format_choices_text() +
                  ", or several of them separated by commas");
    if (std::ranges::find(all, *format) != all.end())
      throw Usage("flag '--dtype': '" + name + "' is given twice; expected it once");
    options.remark(model::substitution_remark(name, transformer));
    all.push_back(*format);
  }
  return all;
}

}  // namespace tandem::cli
