#pragma once

#include <filesystem>
#include <string>

#include "advice/fidelity/matrix.hpp"
#include "advice/fidelity/recording.hpp"
#include "cli/fidelity/run_ways.hpp"
#include "cli/fidelity/subcommands.hpp"

namespace tandem::cli {

struct SittingOptions {
  std::filesystem::path folder;  // of all sittings: models/, cache/, sittings/NAME/
  // Build and machine, kept in each recording: those of others are not to be mixed with its own.
  std::string recorder;
  int runs = 5;
  double profile_seconds = 10.0;
  std::string tcp = "system";  // of ways that are over_tcp
};

// The name of `way` in recordings: pinned TCP is another way than the system's.
[[nodiscard]] std::string recorded_way(const RunWay& way, const std::string& tcp);

// Profile, plan, prediction, runs, profile again, prediction by that profile. What each step makes
// stays in sittings/NAME, whatever becomes of the next. Throws Error (the step's command and its
// message), Interrupted.
[[nodiscard]] study::Recording record(const study::Configuration& configuration, const RunWay& way,
                                      const SittingOptions& options, Subcommands& commands);

}  // namespace tandem::cli
