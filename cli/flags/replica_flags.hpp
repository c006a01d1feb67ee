#pragma once

// The flags of replicas (planner/serving/replicas.hpp).

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/flags/options.hpp"
#include "cli/flags/workload_flags.hpp"
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

}  // namespace tandem::cli
