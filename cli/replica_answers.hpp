#pragma once

// Replicas on the command line: `tandem plan --replicas`, and `simulate` of the folder that it
// writes.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <vector>

#include "advice/question.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/shown.hpp"
#include "cli/flags/workload_flags.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/serving/dispatch/dispatch.hpp"

namespace tandem::cli {

// --replicas and --dispatch.
[[nodiscard]] std::vector<Flag> replica_flags();

struct WantedReplicas {
  std::int64_t count = 0;  // 0: as is best
  const planner::Dispatch* rule = nullptr;
};

// Returns what the flags of `plan` ask for; nothing without --replicas. Throws Usage for flags that
// contradict it.
[[nodiscard]] std::optional<WantedReplicas> wanted_replicas(const Options& options, bool any,
                                                            const std::optional<Served>& served);

// Searches replicas, writes the folder that `show` names, and prints the answer. Returns the exit
// code. `shown.file` is the folder.
int plan_replicas(const Options& options, const WantedReplicas& wanted,
                  const study::Question& question, const planner::SearchEffort::Limits& limits,
                  const Served& served, const Shown& show, std::ostream& out);

// `tandem simulate FOLDER`. Returns the exit code.
int simulate_replicas(Options& options, const std::filesystem::path& folder, const Shown& show,
                      std::ostream& out);

}  // namespace tandem::cli
