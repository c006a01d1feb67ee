#include "cli/files/named_scenarios.hpp"

#include <filesystem>
#include <string>

#include "cli/files/files.hpp"
#include "cli/files/scenarios.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "model/base/csv.hpp"
#include "model/base/digest.hpp"
#include "sim/platform/platform.hpp"

namespace tandem::cli {

namespace fs = std::filesystem;

study::Scenarios scenarios(const sim::PlatformOptions& reading,
                           const std::function<void(const sim::Platform&)>& on_platform) {
  return {.platform =
              [reading, on_platform](const std::string& name) {
                const sim::Platform platform =
                    sim::read_platform(find_platform(name).string(), reading);
                if (on_platform) on_platform(platform);
                return platform.cluster;
              },
          .model = load_model,
          .paper =
              [](const std::string& name) {
                const fs::path path =
                    resource_folder("scenarios") / "experiments" / (name + ".csv");
                return model::parse_csv(read_file(path), path.string());
              },
          .lengths =
              [] {
                const fs::path path = resource_folder("scenarios") / "workloads" / "lengths.csv";
                return model::parse_csv(read_file(path), path.string());
              },
          .digest =
              [](const std::string& platform, const std::string& model) {
                const fs::path config = find_config(model);
                const std::string geometry = exec::is_gguf(config)
                                                 ? model::to_config_json(load_model(model))
                                                 : read_file(config);
                return model::sha256_hex(read_file(find_platform(platform)) + '\n' + geometry);
              }};
}

}  // namespace tandem::cli
