#pragma once

// The ways in which `tandem fidelity` measures a configuration: a row each.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "advice/fidelity/matrix.hpp"

namespace tandem::cli {

struct SittingFiles {
  std::filesystem::path platform;
  std::filesystem::path plan;
  std::filesystem::path weights;  // model folder
  std::filesystem::path cache;    // of sliced weights
};

struct RunWay {
  std::string_view name;  // value of --way
  std::string_view help;
  bool (*applies)(const study::Configuration& configuration);
  // Flags of `tandem profile`: how the machine is measured that computes in this way.
  std::vector<std::string> (*profile_flags)(const study::Configuration& configuration,
                                            const SittingFiles& files);
  // The command, without "tandem", that runs the plan once and writes a result file to `result`.
  std::vector<std::string> (*run_words)(const SittingFiles& files,
                                        const std::filesystem::path& result);
};

// Of several that apply to a configuration, the first is used unless --way names one.
[[nodiscard]] std::span<const RunWay> run_ways();

}  // namespace tandem::cli
