#include "cli/files/model_context.hpp"

#include <filesystem>

#include "cli/files/files.hpp"
#include "cli/files/scenarios.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "model/config/stated_context.hpp"

namespace tandem::cli {

std::int64_t stated_context(const std::string& name) {
  const std::filesystem::path config = find_config(name);
  if (exec::is_gguf(config)) return load_model(name).max_context;
  return model::stated_context(read_file(config), config.string());
}

}  // namespace tandem::cli
