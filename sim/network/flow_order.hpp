#pragma once

// When one step on SimGrid may stand for another: what of a step's flows must agree. Private to
// sim/.

#include <cstdint>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::sim {

// A digest of the order in which the graph's flows begin and end, apart for links that no message
// connects: between two of these events every rate is constant. Ties (model::kTie) count as one
// event. `begin` and `end` of each task, in seconds: of a message, its first byte's and its last
// byte's departure.
[[nodiscard]] std::uint64_t flow_order(const model::Cluster& cluster, const model::TaskGraph& graph,
                                       const std::vector<double>& begin,
                                       const std::vector<double>& end);

// Whether a step's messages have all arrived when its last sample is done, and begin no sooner than
// the last sample of the step before: each leads to the last sample and comes from the lane of it.
[[nodiscard]] bool drains(const model::TaskGraph& graph);

}  // namespace tandem::sim
