#pragma once

// The proximity of devices in the network graph: the order of rings and trees, and the groups of
// the hierarchical collective. Deterministic, ties included.

#include <cstdint>
#include <vector>

#include "model/cluster/cluster.hpp"

namespace tandem::planner {

// A layout of sums. Empty for plans without sums.
struct Proximity {
  std::vector<model::DeviceIndex> order{};  // all devices, the master first
  std::vector<std::int32_t> group{};        // group number by device; members are near one another
  bool operator==(const Proximity&) const = default;
};

// By latency. Order: the devices in the order of a walk along the minimum spanning tree of devices
// and routers, from the master, nearer branches first. As a ring it is at most twice as long as the
// shortest one if latencies obey the triangle inequality (Rosenkrantz et al., SIAM J. Comput. 6(3),
// 1977). Groups: the components of the spanning tree without its long edges, which are those above
// the largest ratio of neighbours among the sorted latencies if that ratio is at least 2; else all
// devices form one group.
[[nodiscard]] Proximity proximity(const model::Cluster& cluster, model::DeviceIndex master);

// Nested groups of near devices, smallest first: by latency, cut at the `most` largest ratios of
// neighbours that give different partitions, neither all singletons nor one group. Each entry has
// group numbers by device, from 0 in the order of `proximity`. Fewer than `most` entries if the
// latencies do not distinguish as many.
[[nodiscard]] std::vector<std::vector<std::int32_t>> nested_groups(const model::Cluster& cluster,
                                                                   model::DeviceIndex master,
                                                                   std::size_t most);

// By wiring alone, regardless of latencies: order by a walk along a spanning tree, branches by
// index. The devices of one router form a group; devices without a router form another.
[[nodiscard]] Proximity wiring(const model::Cluster& cluster, model::DeviceIndex master);

// Candidate layouts, all different: by wiring, with its groups and with one group; by latency, cut
// at every ratio of at least 2, the largest four first; up to 64 devices also ordered by latency to
// the master, and with each device followed by the nearest remaining one.
[[nodiscard]] std::vector<Proximity> layouts(const model::Cluster& cluster,
                                             model::DeviceIndex master);

}  // namespace tandem::planner
