#include "exec/weights/model_folder.hpp"

#include <map>
#include <set>
#include <string>
#include <system_error>

#include "exec/weights/layout.hpp"
#include "exec/weights/read_file.hpp"
#include "exec/weights/safetensors.hpp"
#include "exec/weights/slicing.hpp"
#include "exec/weights/tensor_check.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{1} << 20U;
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

}  // namespace

void check_config(const fs::path& folder, const model::Transformer& transformer) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw Error(folder.string() +
                ": no such folder, expected a model folder of Hugging Face; "
                "check the path");
  }
  const fs::path file = folder / "config.json";
  if (!fs::exists(file, ignored)) {
    throw Error(folder.string() +
                ": folder without config.json, which says what its weights mean; "
                "copy it from where the weights come from");
  }
  const auto found = model::differences(
      transformer, model::parse_config_json(read_text(file, kMaxConfigBytes), file.string()));
  if (found.empty()) return;
  throw Error(file.string() + ": another model than the plan's: " + listed(found) +
              "; give the weights that the plan was made for, or make the plan again with "
              "'--model " +
              folder.string() + "'");
}

model::WeightFormats stored_formats(const SafetensorsFolder& weights,
                                    const model::Transformer& transformer) {
  // Read from a layout whose formats fit whatever the sizes are.
  model::Transformer plain = transformer;
  plain.formats = model::WeightFormats();
  const model::Share all{{0, static_cast<std::int32_t>(plain.layers)},
                         {0, static_cast<std::int32_t>(plain.heads)},
                         {0, static_cast<std::int32_t>(plain.intermediate)},
                         true,
                         true};
  std::map<model::WeightMatrix, std::set<std::string>> types;
  for (const LayoutBlock& block : layout_of(plain, all).blocks) {
    for (const TensorSlice& slice : block.slices) {
      const std::string stored = stored_name(weights, slice.tensor);
      weights.need(stored);
      if (const auto matrix = weight_matrix(slice.weight))
        types[*matrix].insert(weights.dtype_of(stored));
    }
  }
  model::WeightFormats formats;
  for (const auto& [matrix, stored] : types) {
    if (stored.size() != 1) continue;
    if (*stored.begin() == "F16") formats.set(matrix, model::WeightFormat::f16);
    if (*stored.begin() == "BF16") formats.set(matrix, model::WeightFormat::bf16);
  }
  return formats;
}

std::string rounding_remark(const SafetensorsFolder& weights,
                            const model::Transformer& transformer) {
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
  for (const auto& [place, format] : transformer.formats.exceptions()) {
    add("layer " + std::to_string(place.first) + "'s " + std::string(to_string(place.second)),
        stored.of(place.second, place.first), format);
  }
  if (rounded.empty()) return "";
  return "weights are rounded to the plan's formats as they are sliced, which changes results: " +
         rounded;
}

SafetensorsFolder open_weights(const fs::path& folder, const model::Transformer& transformer) {
  check_config(folder, transformer);
  SafetensorsFolder weights(folder);
  check_tensors(weights, transformer);
  return weights;
}

}  // namespace tandem::exec
