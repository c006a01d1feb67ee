#pragma once

// Replicas on the command line: `tandem plan --replicas`, and `simulate` of the folder that it
// writes.

#include <filesystem>
#include <map>
#include <optional>
#include <ostream>
#include <string>

#include "advice/question.hpp"
#include "cli/flags/loss.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/replica_flags.hpp"
#include "cli/flags/shown.hpp"
#include "cli/flags/workload_flags.hpp"
#include "model/predict/device_share.hpp"
#include "planner/partition/search_effort.hpp"

namespace tandem::cli {

struct ReplicaSearchLimits {
  planner::SearchEffort::Limits limits{};
  std::map<std::string, model::DeviceShare> shares{};  // of devices that are used in part
  std::optional<PricedFormats> priced{};               // of a question with a LossBudget
};
// Searches replicas, writes the folder that `show` names, and prints the answer. Returns the exit
// code. `shown.file` is the folder.
int plan_replicas(const Options& options, const WantedReplicas& wanted, study::Question question,
                  const ReplicaSearchLimits& within, const Served& served, const Shown& show,
                  std::ostream& out);

// `tandem simulate FOLDER`. Returns the exit code.
int simulate_replicas(Options& options, const std::filesystem::path& folder, const Shown& show,
                      std::ostream& out);

}  // namespace tandem::cli
