#include "cli/flags/dtype.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/word_list.hpp"
#include "model/transformer/format_choice.hpp"

namespace tandem::cli {
namespace {

// The first number in `text`, or nothing: "4" in "q4_k_m".
std::string_view first_number(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t begin = std::min(text.find_first_of(kDigits), text.size());
  return text.substr(begin, text.find_first_not_of(kDigits, begin) - begin);
}

}  // namespace

std::string format_named(const std::string& text, const std::vector<std::string_view>& known,
                         const std::string& more) {
  std::string name = model::lower_case(text);
  if (std::ranges::find(known, name) != known.end()) return name;
  const std::string_view bits = first_number(text);
  std::string all;
  std::vector<std::string_view> wide;
  for (const std::string_view format : known) {
    all += (all.empty() ? "" : ", ") + std::string(format);
    if (!bits.empty() && first_number(format) == bits) wide.push_back(format);
  }
  std::string hint;
  for (const std::string_view format : wide) {
    hint += hint.empty() ? "; " + std::string(bits) + " bits: "
                         : (format == wide.back() ? " or " : ", ");
    hint += format;
  }
  throw Usage("flag '--dtype': '" + text + "', expected one of " + all + more + hint);
}

std::optional<model::WeightFormats> dtype_of(const Options& options,
                                             const model::Transformer& transformer, DTypes known) {
  const auto text = options.text("dtype");
  if (!text) return std::nullopt;
  const std::string name = format_named(
      *text, known == DTypes::planned ? model::planned_formats() : model::format_choices());
  options.remark(model::substitution_remark(name, transformer));
  return model::chosen_formats(name, transformer);
}

std::vector<model::WeightFormats> dtypes_of(const Options& options,
                                            const model::Transformer& transformer) {
  std::vector<model::WeightFormats> all;
  const auto text = options.text("dtype");
  if (!text) return all;
  for (const std::string& part : model::split_list(*text)) {
    const std::string name =
        format_named(part, model::planned_formats(), ", or several of them separated by commas");
    const auto format = model::chosen_formats(name, transformer);
    if (std::ranges::find(all, *format) != all.end())
      throw Usage("flag '--dtype': '" + name + "' is given twice; expected it once");
    options.remark(model::substitution_remark(name, transformer));
    all.push_back(*format);
  }
  return all;
}

}  // namespace tandem::cli
