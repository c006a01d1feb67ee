#pragma once

// The ways in which `tandem fidelity` measures a configuration: a row each.

#include <filesystem>
#include <limits>
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
  std::string tcp;                // value of --tcp
};

struct RunCommand {
  std::vector<std::string> words;  // without "tandem"
  std::filesystem::path result;    // the file that it writes: `stem` with .json, or in a folder
};

struct RunWay {
  std::string_view name;  // value of --way
  std::string_view help;
  // Why a configuration cannot be run in this way; empty: it can.
  std::string (*obstacle)(const study::Configuration& configuration);
  // At most so much of this machine may the devices need at once (fidelity_platform_xml()).
  double most_demand = std::numeric_limits<double>::infinity();
  bool over_tcp = false;  // a testbed: --tcp has an effect, and the machine must permit it
  // Flags of `tandem profile`: how the machine is measured that computes in this way.
  std::vector<std::string> (*profile_flags)(const study::Configuration& configuration,
                                            const SittingFiles& files);
  // The command that runs the plan once.
  RunCommand (*run)(const SittingFiles& files, const std::filesystem::path& stem);
};

// Of several that apply to a configuration, the first is used unless --way names one.
[[nodiscard]] std::span<const RunWay> run_ways();

}  // namespace tandem::cli
