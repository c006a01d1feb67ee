#include "model/transformer/format_choice.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace tandem::model {
namespace {

constexpr std::string_view kMixOf4 = "q4_k_m";
constexpr std::string_view kMixOf5 = "q5_k_m";

WeightFormat fallback_of(WeightFormat format) {
  if (format == WeightFormat::q4_k) return WeightFormat::q5_0;
  if (format == WeightFormat::q5_k) return WeightFormat::q5_1;
  if (format == WeightFormat::q6_k) return WeightFormat::q8_0;
  return format;
}

// `format`, or what rows of the matrix can have instead.
WeightFormat fitting(const Transformer& t, WeightMatrix matrix, WeightFormat format) {
  const std::int64_t row = t.row_unit(matrix);
  const WeightFormat instead = fallback_of(format);
  if (instead == format || row % block_of(format).elements == 0) return format;
  return row % block_of(instead).elements == 0 ? instead : WeightFormat::f16;
}

// Layers that keep more bits.
bool keeps_more(std::int64_t layer, std::int64_t layers) {
  const std::int64_t eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

// Models that llama.cpp classifies as LLM_TYPE_70B (llama-model.cpp); files of query_growth are
// mistral3's.
bool is_70b(const Transformer& t) {
  constexpr std::int64_t kLayers = 80;
  if (t.layers != kLayers || t.query_growth > 0.0) return false;
  return t.family == Family::qwen2 || (t.family == Family::llama && t.heads != t.kv_heads);
}

// Whether rows that a format cannot represent get another one.
enum class Rows { as_meant, fitting };

WeightFormats mix(const Transformer& t, WeightFormat most, Rows rows) {
  using enum WeightMatrix;
  WeightFormats formats;
  const auto of = [&](WeightMatrix matrix, WeightFormat format) {
    return rows == Rows::fitting ? fitting(t, matrix, format) : format;
  };
  const auto set = [&](WeightMatrix matrix, WeightFormat format) {
    formats.set(matrix, of(matrix, format));
  };
  for (const WeightMatrix matrix : kWeightMatrices) set(matrix, most);
  set(t.tied_embeddings ? embedding : head, WeightFormat::q6_k);
  if (t.tied_embeddings) set(head, WeightFormat::q6_k);
  // Matrices that files fuse with values have their format.
  std::vector<WeightMatrix> values{value};
  if (t.family == Family::gpt2 || t.family == Family::phi3) values = {query, key, value};
  if (is_70b(t) && most == WeightFormat::q4_k) set(value, WeightFormat::q5_k);
  for (std::int64_t layer = 0; layer < t.layers; ++layer) {
    if (!keeps_more(layer, t.layers)) continue;
    const auto keep_more = [&](WeightMatrix matrix) {
      formats.set(matrix, static_cast<std::int32_t>(layer), of(matrix, WeightFormat::q6_k));
    };
    for (const WeightMatrix matrix : values) keep_more(matrix);
    keep_more(down);
  }
  return formats;
}

// Formats of files that are published in `format`: fp8 is every matrix of the layers (DeepSeek V3),
// the formats of 4 bits are those of the FFN or the experts (gpt-oss). Others are bf16.
WeightFormats published(const Transformer& t, WeightFormat format, Rows rows) {
  using enum WeightMatrix;
  WeightFormats formats(WeightFormat::bf16);
  for (const WeightMatrix matrix : kWeightMatrices) {
    const bool ffn = matrix == gate || matrix == up || matrix == down;
    if (!is_of_layer(matrix) || (!ffn && format != WeightFormat::fp8)) continue;
    const bool fits = t.row_unit(matrix) % block_of(format).elements == 0;
    formats.set(matrix, fits || rows == Rows::as_meant ? format : WeightFormat::bf16);
  }
  return formats;
}

std::optional<WeightFormats> formats_of(std::string_view name, const Transformer& t, Rows rows) {
  if (name == kMixOf4) return mix(t, WeightFormat::q4_k, rows);
  if (name == kMixOf5) return mix(t, WeightFormat::q5_k, rows);
  const std::optional<WeightFormat> format = find_any_format(name);
  if (format && !is_executed(*format)) return published(t, *format, rows);
  if (!format || !is_for_writing(*format)) return std::nullopt;
  WeightFormats formats;
  for (const WeightMatrix matrix : kWeightMatrices)
    formats.set(matrix, rows == Rows::fitting ? fitting(t, matrix, *format) : *format);
  return formats;
}

// "a", "a and b", "a, b and c".
std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

// Matrices of one meant format that have the same other one.
struct Substitution {
  std::set<std::int64_t> rows{};
  std::vector<std::string> matrices{};
};

// Whether all matrices have the same formats, whichever of two equally frequent ones is reported as
// the exception.
bool same_formats(const WeightFormats& a, const WeightFormats& b, std::int64_t layers) {
  if (a == b) return true;
  for (const WeightMatrix matrix : kWeightMatrices) {
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      if (a.of(matrix, layer) != b.of(matrix, layer)) return false;
    }
  }
  return layers > 0;
}

}  // namespace

std::vector<std::string_view> format_choices() {
  std::vector<std::string_view> names;
  for (const WeightFormat format : kWeightFormats) {
    if (is_for_writing(format)) names.push_back(to_string(format));
  }
  names.push_back(kMixOf4);
  names.push_back(kMixOf5);
  return names;
}

std::vector<std::string_view> planned_formats() {
  std::vector<std::string_view> names = format_choices();
  for (const WeightFormat format : kAllFormats) {
    if (!is_executed(format)) names.push_back(to_string(format));
  }
  return names;
}

std::string format_choices_text() {
  std::string text;
  const std::vector<std::string_view> names = format_choices();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

std::optional<WeightFormats> chosen_formats(std::string_view name, const Transformer& transformer) {
  return formats_of(name, transformer, Rows::fitting);
}

std::string substitution_remark(std::string_view name, const Transformer& transformer) {
  const auto meant = formats_of(name, transformer, Rows::as_meant);
  if (!meant) return "";
  const auto chosen = formats_of(name, transformer, Rows::fitting);
  std::map<std::pair<WeightFormat, WeightFormat>, Substitution> found;
  for (const WeightMatrix matrix : kWeightMatrices) {
    std::set<std::pair<WeightFormat, WeightFormat>> seen;  // in some layer
    for (std::int32_t layer = 0; layer < transformer.layers; ++layer)
      seen.emplace(meant->of(matrix, layer), chosen->of(matrix, layer));
    for (const auto& change : seen) {
      if (change.first == change.second) continue;
      found[change].rows.insert(transformer.row_unit(matrix));
      found[change].matrices.emplace_back(to_string(matrix));
    }
  }
  std::string text;
  for (const auto& [change, substitution] : found) {
    const auto& [from, to] = change;
    std::vector<std::string> rows;
    for (const std::int64_t row : substitution.rows) rows.push_back(std::to_string(row));
    const bool all = substitution.matrices.size() == kWeightMatrices.size();
    text.append(text.empty() ? "" : "; ").append(to_string(from)).append(" is impossible for ");
    text.append("rows of ").append(list_text(rows)).append(" numbers, no multiples of ");
    text.append(std::to_string(block_of(from).elements)).append(": ");
    text.append(all ? "all matrices" : list_text(substitution.matrices)).append(" in ");
    text.append(to_string(to)).append(" instead");
  }
  return text;
}

std::string format_name(const Transformer& transformer) {
  for (const std::string_view name : planned_formats()) {
    const auto formats = chosen_formats(name, transformer);
    if (formats && same_formats(*formats, transformer.formats, transformer.layers))
      return std::string(name);
  }
  return transformer.formats.text();
}

std::string to_json(const WeightFormats& formats) {
  nlohmann::ordered_json json;
  for (const MatrixGroup& group : matrix_groups()) {
    const WeightFormat first = formats.of(group.matrices.front());
    const bool same_formats = std::ranges::all_of(
        group.matrices, [&](WeightMatrix matrix) { return formats.of(matrix) == first; });
    if (same_formats) json[std::string(group.name)] = to_string(first);
    if (same_formats) continue;
    for (const WeightMatrix matrix : group.matrices)
      json[std::string(to_string(matrix))] = to_string(formats.of(matrix));
  }
  for (const auto& [place, format] : formats.exceptions()) {
    json["layers"][std::to_string(place.first)][std::string(to_string(place.second))] =
        to_string(format);
  }
  return json.dump();
}

}  // namespace tandem::model
