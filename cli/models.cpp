#include "cli/models.hpp"

#include <system_error>

#include "cli/files.hpp"
#include "model/error.hpp"

namespace tandem::cli {
namespace fs = std::filesystem;
namespace {

fs::path find_config(const std::string& name) {
  std::error_code fault;
  if (fs::is_directory(name, fault)) {
    fs::path config = fs::path(name) / "config.json";
    if (!fs::exists(config, fault))
      throw Error(name + ": folder without config.json; expected a Hugging Face model folder");
    return config;
  }
  if (fs::exists(name, fault)) return name;
  if (name.find('/') == std::string::npos) {
    fs::path file = resource_folder("scenarios") / "models" / (name + ".json");
    if (fs::is_regular_file(file, fault)) return file;
  }
  throw Error(name + ": no such model folder, config.json or known model; see 'tandem model list'");
}

}  // namespace

model::Transformer load_model(const std::string& name) {
  const fs::path config = find_config(name);
  return model::parse_config_json(read_file(config), config.string());
}

}  // namespace tandem::cli
