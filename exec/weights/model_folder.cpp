#include "exec/weights/model_folder.hpp"

#include <system_error>

#include "exec/weights/read_file.hpp"
#include "exec/weights/safetensors.hpp"
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

SafetensorsFolder open_weights(const fs::path& folder, const model::Transformer& transformer) {
  check_config(folder, transformer);
  SafetensorsFolder weights(folder);
  check_tensors(weights, transformer);
  return weights;
}

}  // namespace tandem::exec
