#include "cli/files/scenarios.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <system_error>

#include "cli/files/files.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/weights/files/read_file.hpp"
#include "exec/weights/model_folder.hpp"
#include "model/base/error.hpp"

namespace tandem::cli {
namespace fs = std::filesystem;
namespace {

// Of a model that comes with tandem, of which `name` is the bare name; else nothing.
std::optional<fs::path> known_model(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos) return std::nullopt;
  const fs::path models = resource_folder("scenarios") / "models";
  std::error_code fault;
  for (const fs::path& file : {models / (name + ".json"), models / name / "config.json"}) {
    if (fs::is_regular_file(file, fault)) return file;
  }
  return std::nullopt;
}

// Folders in scenarios/models that hold weights.
std::vector<std::string> models_with_weights() {
  std::vector<std::string> names;
  const fs::path models = resource_folder("scenarios") / "models";
  std::error_code fault;
  for (const fs::directory_entry& entry : fs::directory_iterator(models, fault)) {
    if (fs::is_regular_file(entry.path() / "config.json", fault))
      names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

fs::path find_config(const std::string& name) {
  std::error_code fault;
  if (fs::is_directory(name, fault)) {
    fs::path config = fs::path(name) / "config.json";
    if (!exec::is_present(config))
      throw Error(name + ": folder without config.json; expected a Hugging Face model folder");
    return config;
  }
  if (exec::is_present(name)) return name;
  if (const auto known = known_model(name)) return *known;
  throw Error(unknown_name(name, "model folder, GGUF file, config.json or known model",
                           known_models(), "see 'tandem model list'"));
}

model::Transformer load_model(const std::string& name) {
  const fs::path config = find_config(name);
  if (exec::is_gguf(config)) return exec::read_geometry(config);
  return model::parse_config_json(read_file(config), config.string());
}

fs::path find_weights(const std::string& name) {
  std::error_code fault;
  if (!fs::exists(name, fault)) {
    const auto known = known_model(name);
    if (known && known->filename() == "config.json") return known->parent_path();
  }
  return name;
}

fs::path weights_of(const std::string& name) {
  fs::path weights = find_weights(name);
  if (exec::is_present(weights)) return weights;
  const std::string known = listed(models_with_weights());
  if (known_model(name))
    throw Error(name +
                ": a geometry without weights, expected a Hugging Face folder, a GGUF file, or a "
                "model that comes with weights (" +
                known +
                "); give the path of its weights, or make random ones with `tandem model random "
                "--config " +
                name + "`");
  throw Error(unknown_name(name, "model folder, GGUF file or model that comes with weights",
                           known_models(), "models with weights: " + known));
}

fs::path weights_for(const std::string& name, const model::Transformer& planned) {
  fs::path folder = weights_of(name);
  exec::check_config(folder, planned);
  return folder;
}

std::vector<std::string> known_models() {
  std::vector<std::string> names = scenario_names("models", ".json");
  std::ranges::copy(models_with_weights(), std::back_inserter(names));
  std::ranges::sort(names);
  return names;
}

}  // namespace tandem::cli
