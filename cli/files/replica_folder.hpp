#pragma once

// The folder that `tandem plan --replicas` writes: replicas.json, haproxy.cfg, and for each replica
// a plan and, of a workload file, the lines of its requests.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/file/plan_file.hpp"
#include "planner/plan/inference_request.hpp"
#include "planner/serving/dispatch/dispatch.hpp"
#include "planner/serving/replicas.hpp"

namespace tandem::cli {

struct ReplicaFolder {
  std::vector<std::filesystem::path> plans{};         // one a replica
  std::vector<std::filesystem::path> paths{};         // of all files
  std::vector<planner::PlanFile> files{};             // what they hold
  std::vector<planner::Replica> replicas{};           // the same
  std::vector<planner::InferenceRequest> requests{};  // of all, in the order of arrival
  const planner::Dispatch* rule = nullptr;
  std::string sha256{};  // of replicas.json, which has those of the plans
};

// Returns whether `path` is a folder.
[[nodiscard]] bool is_folder(const std::filesystem::path& path);

// Reads the folder. Throws Error (file, field, value, expected, remedy), also for a plan that is
// not the one that was written.
[[nodiscard]] ReplicaFolder read_replica_folder(const std::filesystem::path& folder);

// Writes the folder, which is made if need be. `workload` is the text of the workload file; empty:
// the requests are samples. Throws Error as write_file does.
struct ReplicaFolderParts {
  std::vector<planner::Replica> replicas{};
  std::string workload{};
  bool raw_prompts = false;
  const planner::Dispatch* rule = nullptr;
  std::optional<planner::SearchCut> search{};          // as of a plan file
  std::map<std::string, model::DeviceShare> shares{};  // of devices of any replica
  std::vector<planner::PlanLoss> losses{};             // of each replica; empty: no bound
};
void write_replica_folder(const std::filesystem::path& folder, const ReplicaFolderParts& parts,
                          const std::vector<planner::InferenceRequest>& requests);

// "replica-1.json".
[[nodiscard]] std::string replica_name(std::size_t replica);
// Returns the names of all files that a folder may have, of the most replicas.
[[nodiscard]] std::vector<std::string> replica_file_names();

}  // namespace tandem::cli
