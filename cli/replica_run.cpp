#include "cli/replica_run.hpp"

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "cli/files/files.hpp"
#include "cli/files/replica_folder.hpp"
#include "cli/files/temporary_folder.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/sampling_flags.hpp"
#include "cli/flags/workload_flags.hpp"
#include "cli/views/result_tables.hpp"
#include "model/base/error.hpp"
#include "model/report/result.hpp"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

// Returns the options for one replica, whose first request is at position `first` among all.
Options of_replica(const Options& options, const fs::path& plan, const fs::path& result,
                   std::size_t first) {
  Options own = options;
  own.set_positional(0, plan.string());
  own.set("out", result.string());
  if (first > 0 && sampling_of(options).temperature > 0.0) {
    // Samples are numbered, and seeded, from the first of each plan.
    own.set("seed", std::to_string(sampling_of(options).seed + first));
  }
  return own;
}

}  // namespace

int run_replicas(const Options& options, RunPlan run, std::ostream& out) {
  if (!options.has("emulate"))
    throw Usage("argument '" + options.positional(0) +
                "': a folder of replicas, whose devices are emulated; expected '--emulate'. On "
                "devices run the plans of the folder side by side, each with '--hosts'");
  options.refuse({"workload", "samples", "policy", "chunk", "in-flight", "prefix-cache",
                  "prompt-ids", "hidden", "logits", "trace", "predicted"},
                 "with a folder of replicas, each of which is a plan; run that plan");
  const ReplicaFolder read = read_replica_folder(options.positional(0));
  if (read.files.front().service->samples == 0) {
    constexpr const char* kWhen = "with replicas for a workload, which says it for each request";
    options.refuse({"prompt", "chat", "system", "new-tokens", "ignore-eos"}, kWhen);
    refuse_sampling(options, kWhen);
  }
  FileRoles files;
  for (const fs::path& path : read.paths) files.reads("the folder of replicas", path);
  files.writes(options, "out");
  files.check();
  const TemporaryFolder results("replicas");
  std::vector<model::Result> of_each;
  std::size_t first = 0;
  for (std::size_t i = 0; i < read.plans.size(); ++i) {
    const fs::path result = results.path() / replica_name(i);
    if (!options.has("quiet"))
      std::cerr << "replica " << i + 1 << " of " << read.plans.size() << '\n';
    const int code = run(of_replica(options, read.plans[i], result, first), out);
    if (code != 0) return code;
    of_each.push_back(model::parse_result_json(read_file(result), result.string()));
    first += read.replicas[i].requests.size();
  }
  model::Result all = planner::joined(read.requests, read.replicas, of_each);
  all.plan = {.sha256 = read.sha256,
              .strategy = "replicas",
              .model = of_each.front().plan.model,
              .platform = of_each.front().plan.platform};
  if (const auto path = options.text("out")) write_file(*path, model::to_json(all));
  if (!options.has("quiet")) {
    out << '\n';
    print_requests(all, out);
  }
  return 0;
}

}  // namespace tandem::cli
