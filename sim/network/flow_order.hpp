#pragma once

// The condition under which one step on SimGrid may represent another: equal order of flows.
// Private to sim/.

#include <cstdint>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::sim {

// Returns a digest of the order in which the graph's flows begin and end, separately for links that
// no message connects: between two of these events every rate is constant. Ties (model::kTie) count
// as one event. `begin` and `end` of each task in seconds: for a message, departures of its first
// and last byte.
[[nodiscard]] std::uint64_t flow_order(const model::Cluster& cluster, const model::TaskGraph& graph,
                                       const std::vector<double>& begin,
                                       const std::vector<double>& end);

// Returns whether all messages of a step have arrived at its last sample, and none begins before
// the last sample of the step before: each leads to the last sample and starts from its lane.
[[nodiscard]] bool drains(const model::TaskGraph& graph);

}  // namespace tandem::sim
