#pragma once

// Who is near whom, from the network graph: the order of rings and trees, and the groups of the
// hierarchical collective.

#include <cstdint>
#include <vector>

#include "model/cluster.hpp"

namespace tandem::planner {

struct Proximity {
  // All devices, the master first: the order in which a walk along the minimum spanning tree (by
  // latency, of devices and routers) from the master meets them, nearer branches first. As a ring
  // it is at most twice as long as the shortest one, where latencies obey the triangle inequality
  // (Rosenkrantz et al., SIAM J. Comput. 6(3), 1977).
  std::vector<model::DeviceIndex> order;
  // By device: devices of equal number are near one another. They are what is left together of the
  // spanning tree without its long edges: with latencies sorted, those above the largest ratio of
  // neighbours, if that is at least 2; else all devices are one group.
  std::vector<std::int32_t> group;
};

// Depends on nothing but its arguments, ties included, so that every process finds the same.
[[nodiscard]] Proximity proximity(const model::Cluster& cluster, model::DeviceIndex master);

}  // namespace tandem::planner
