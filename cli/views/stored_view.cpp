#include "cli/views/stored_view.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "exec/weights/model_folder.hpp"
#include "exec/weights/source/weight_source.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/units.hpp"
#include "model/transformer/format_choice.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;
using model::WeightFormat;
using model::WeightMatrix;

std::string size_text(std::int64_t bytes) {
  return to_text(model::Bytes{static_cast<double>(bytes)});
}

// "0-2, 5, 8-9".
std::string layers_text(const std::vector<std::int32_t>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    text += (i == 0 ? "" : ", ") + std::to_string(layers[i]);
    if (last > i) text += "-" + std::to_string(layers[last]);
    i = last;
  }
  return text;
}

bool alike(const model::WeightFormats& a, const model::WeightFormats& b, std::int64_t layers) {
  for (const WeightMatrix matrix : model::kWeightMatrices) {
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      if (a.of(matrix, layer) != b.of(matrix, layer)) return false;
    }
  }
  return true;
}

}  // namespace

StoredTensors stored_tensors(const std::filesystem::path& weights,
                             const model::Transformer& transformer) {
  const auto source = exec::open_weights(weights, transformer);
  StoredTensors stored;
  stored.matrices = exec::tensor_formats(*source, transformer);
  for (const std::string& name : source->names()) {
    std::string format = source->dtype_of(name);
    std::ranges::transform(format, format.begin(), [](char c) {
      return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    const auto bytes = static_cast<std::int64_t>(source->bytes_of(name).bytes);
    for (StoredTensors::Sum* const sum : {&stored.by_format[format], &stored.all}) {
      ++sum->tensors;
      sum->bytes += bytes;
    }
  }
  return stored;
}

void add_stored(const StoredTensors* stored, nlohmann::ordered_json& json) {
  json["stored_bytes"] = stored != nullptr ? Json(stored->all.bytes) : Json(nullptr);
  json["stored_formats"] = nullptr;
  json["stored_weights"] = nullptr;
  if (stored == nullptr) return;
  for (const auto& [format, sum] : stored->by_format)
    json["stored_formats"][format] = {{"tensors", sum.tensors}, {"bytes", sum.bytes}};
  json["stored_weights"] = Json::parse(model::to_json(stored->matrices));
}

std::string stored_text(const StoredTensors& stored) {
  std::string text =
      size_text(stored.all.bytes) + " in " + std::to_string(stored.all.tensors) + " tensors";
  const char* separator = ": ";
  for (const auto& [format, sum] : stored.by_format) {
    text +=
        separator + format + " " + std::to_string(sum.tensors) + " (" + size_text(sum.bytes) + ")";
    separator = ", ";
  }
  return text;
}

std::string matrices_text(const StoredTensors& stored, const model::Transformer& transformer) {
  // What is usual of a matrix, if as many layers have this as that, is a mix's to say.
  model::WeightFormats formats = stored.matrices;
  std::string mix;
  for (const std::string_view name : model::format_choices()) {
    const auto chosen = model::chosen_formats(name, transformer);
    if (model::find_weight_format(name) || !chosen || !alike(*chosen, formats, transformer.layers))
      continue;
    mix = std::string(name) + ": ";
    formats = *chosen;
  }
  model::WeightFormats usual;
  for (const WeightMatrix matrix : model::kWeightMatrices) usual.set(matrix, formats.of(matrix));
  std::string text = mix + usual.text();
  // Matrices that differ in the same layers are told together.
  std::map<std::pair<WeightMatrix, WeightFormat>, std::vector<std::int32_t>> layers;
  for (const auto& [place, format] : formats.exceptions())
    layers[{place.second, format}].push_back(place.first);
  std::vector<std::pair<std::string, std::pair<WeightFormat, std::vector<std::int32_t>>>> groups;
  for (const auto& [key, of] : layers) {
    const std::pair value{key.second, of};
    const auto same = std::ranges::find(groups, value, [](const auto& one) { return one.second; });
    const std::string matrix(model::to_string(key.first));
    if (same != groups.end()) {
      same->first += ", " + matrix;
    } else {
      groups.emplace_back(matrix, value);
    }
  }
  for (const auto& [names, where] : groups) {
    text += "; " + names + " ";
    text += to_string(where.first);
    text += where.second.size() == 1 ? " in layer " : " in layers ";
    text += layers_text(where.second);
  }
  return text;
}

}  // namespace tandem::cli
