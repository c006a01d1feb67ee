#include "exec/weights/model_folder.hpp"

#include <map>
#include <set>
#include <string>
#include <system_error>

#include "exec/gguf/gguf_file.hpp"
#include "exec/gguf/gguf_geometry.hpp"
#include "exec/gguf/gguf_weights.hpp"
#include "exec/weights/files/read_file.hpp"
#include "exec/weights/source/layout.hpp"
#include "exec/weights/source/safetensors.hpp"
#include "exec/weights/source/weight_source.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxGeometryBytes = std::uint64_t{1} << 20U;
constexpr std::size_t kMostListed = 4;

std::string listed(const std::vector<model::FieldDifference>& differences) {
  std::string text;
  for (std::size_t i = 0; i < differences.size() && i < kMostListed; ++i) {
    const model::FieldDifference& field = differences[i];
    text += (i == 0 ? "" : ", ") + field.field + " " + field.second + " where the plan has " +
            field.first;
  }
  if (differences.size() > kMostListed) {
    text += ", and " + std::to_string(differences.size() - kMostListed) + " more fields";
  }
  return text;
}

bool in_whole_blocks(const model::Transformer& transformer) {
  try {
    transformer.validate();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

model::Transformer read_geometry(const fs::path& weights) {
  std::error_code ignored;
  if (!is_present(weights))
    throw Error(weights.string() +
                ": no such folder, expected a model folder of Hugging Face, or a GGUF file; "
                "check the path");
  if (is_gguf(weights)) {
    const GgufFile file(weights);
    model::Transformer transformer = gguf_geometry(file);
    const GgufWeights tensors(file, transformer);
    transformer.formats = stored_formats(tensors, transformer);
    // A plan of sizes that are not those of the weights could never run.
    tensors.check_tensors(transformer);
    return transformer;
  }
  if (!fs::is_directory(weights, ignored))
    throw Error(weights.string() +
                ": neither a folder nor a GGUF file, expected a model folder of Hugging Face, or a "
                "GGUF file; check the path");
  const fs::path file = weights / "config.json";
  if (!is_present(file)) {
    throw Error(weights.string() +
                ": folder without config.json, which says what its weights mean; "
                "copy it from where the weights come from");
  }
  const fs::path adapter = weights / "adapter_config.json";
  if (is_present(adapter))
    throw Error(adapter.string() +
                ": the folder has an adapter (LoRA), which is not applied, expected whole weights; "
                "merge it into them (PEFT: merge_and_unload), or move the adapter's files away");
  return model::parse_config_json(read_text(file, kMaxGeometryBytes), file.string());
}

void check_config(const fs::path& weights, const model::Transformer& transformer) {
  transformer.require_executable();
  const auto found = model::differences(transformer, read_geometry(weights));
  if (found.empty()) return;
  std::error_code ignored;
  const fs::path file = fs::is_directory(weights, ignored) ? weights / "config.json" : weights;
  throw Error(file.string() + ": another model than the plan's: " + listed(found) +
              "; give the weights that the plan was made for, or make the plan again with "
              "'--model " +
              weights.string() + "'");
}

model::WeightFormats tensor_formats(const WeightSource& weights,
                                    const model::Transformer& transformer) {
  // Read from a layout whose formats fit whatever the sizes are.
  model::Transformer plain = transformer;
  plain.formats = model::WeightFormats();
  const model::Share all{{0, static_cast<std::int32_t>(plain.layers)},
                         {0, static_cast<std::int32_t>(plain.heads)},
                         {0, static_cast<std::int32_t>(plain.intermediate)},
                         true,
                         true};
  std::map<model::WeightMatrix, std::map<std::int32_t, model::WeightFormat>> types;
  for (const LayoutBlock& block : layout_of(plain, all).blocks) {
    for (const TensorSlice& slice : block.slices) {
      const StoredPlace stored = weights.place_of(slice, block.layer);
      weights.need_readable(stored);
      if (const auto matrix = weight_matrix(slice.weight))
        types[*matrix][block.layer] = *weights.format_of(stored.tensor);
    }
  }
  model::WeightFormats formats;
  for (const auto& [matrix, by_layer] : types) {
    std::map<model::WeightFormat, std::size_t> counts;
    for (const auto& [layer, format] : by_layer) ++counts[format];
    const auto most =
        std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
    formats.set(matrix, most->first);
    if (!model::is_of_layer(matrix)) continue;
    for (const auto& [layer, format] : by_layer) {
      if (format != most->first) formats.set(matrix, layer, format);
    }
  }
  // Absent or fused matrices have the format of the one they belong to.
  if (!types.contains(model::WeightMatrix::gate))
    formats.set(model::WeightMatrix::gate, formats.of(model::WeightMatrix::up));
  if (!types.contains(model::WeightMatrix::head))
    formats.set(model::WeightMatrix::head, formats.of(model::WeightMatrix::embedding));
  return formats;
}

model::WeightFormats stored_formats(const WeightSource& weights,
                                    const model::Transformer& transformer) {
  const model::WeightFormats tensors = tensor_formats(weights, transformer);
  const auto fitting = [&](model::WeightMatrix matrix, model::WeightFormat format) {
    model::Transformer one = transformer;
    one.formats = model::WeightFormats();
    one.formats.set(matrix, format);
    return in_whole_blocks(one) ? format : model::WeightFormat::f32;
  };
  model::WeightFormats formats;
  for (const model::WeightMatrix matrix : model::kWeightMatrices)
    formats.set(matrix, fitting(matrix, tensors.of(matrix)));
  for (const auto& [place, format] : tensors.exceptions())
    formats.set(place.second, place.first, fitting(place.second, format));
  return formats;
}

std::string rounding_remark(const WeightSource& weights, const model::Transformer& transformer) {
  const model::WeightFormats stored = stored_formats(weights, transformer);
  std::string rounded;
  const auto add = [&](std::string_view name, model::WeightFormat from, model::WeightFormat to) {
    if (to == model::WeightFormat::f32 || to == from) return;
    rounded += (rounded.empty() ? "" : ", ") + std::string(name) + " (" +
               std::string(to_string(from)) + " to " + std::string(to_string(to)) + ")";
  };
  for (const model::MatrixGroup& group : model::matrix_groups()) {
    const model::WeightMatrix first = group.matrices.front();
    if (first == model::WeightMatrix::head && transformer.tied_embeddings) continue;
    const auto as_first = [&](model::WeightMatrix matrix) {
      return transformer.formats.of(matrix) == transformer.formats.of(first) &&
             stored.of(matrix) == stored.of(first);
    };
    if (std::ranges::all_of(group.matrices, as_first)) {
      add(group.name, stored.of(first), transformer.formats.of(first));
      continue;
    }
    for (const model::WeightMatrix matrix : group.matrices)
      add(to_string(matrix), stored.of(matrix), transformer.formats.of(matrix));
  }
  // Single layers that differ, in the plan or in the files.
  std::set<model::WeightFormats::Place> single;
  for (const model::WeightFormats* formats : {&transformer.formats, &stored}) {
    for (const auto& [place, ignored] : formats->exceptions()) single.insert(place);
  }
  for (const auto& [layer, matrix] : single) {
    add("layer " + std::to_string(layer) + "'s " + std::string(to_string(matrix)),
        stored.of(matrix, layer), transformer.formats.of(matrix, layer));
  }
  if (rounded.empty()) return "";
  return "weights are rounded to the plan's formats as they are sliced, which changes results: " +
         rounded;
}

std::unique_ptr<const WeightSource> open_weights(const fs::path& weights,
                                                 const model::Transformer& transformer) {
  check_config(weights, transformer);
  std::unique_ptr<const WeightSource> source;
  if (is_gguf(weights)) {
    source = std::make_unique<GgufWeights>(GgufFile(weights), transformer);
  } else {
    source = std::make_unique<SafetensorsFolder>(weights);
  }
  source->check_tensors(transformer);
  return source;
}

}  // namespace tandem::exec
