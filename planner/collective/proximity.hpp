#pragma once

// Who is near whom, from the network graph: the order of rings and trees, and the groups of the
// hierarchical collective. All of it depends on nothing but its arguments, ties included.

#include <cstdint>
#include <vector>

#include "model/cluster/cluster.hpp"

namespace tandem::planner {

// A layout of sums. Of a plan that makes none, both are empty.
struct Proximity {
  std::vector<model::DeviceIndex> order{};  // all devices, the master first
  std::vector<std::int32_t> group{};        // by device: those of equal number are near one another
  bool operator==(const Proximity&) const = default;
};

// By latency. Order: that in which a walk along the minimum spanning tree (of devices and routers)
// from the master meets the devices, nearer branches first. As a ring it is at most twice as long
// as the shortest one, where latencies obey the triangle inequality (Rosenkrantz et al., SIAM J.
// Comput. 6(3), 1977). Groups: what is left together of the spanning tree without its long edges:
// with latencies sorted, those above the largest ratio of neighbours, if that is at least 2; else
// all devices are one group.
[[nodiscard]] Proximity proximity(const model::Cluster& cluster, model::DeviceIndex master);

// Groups of near devices within groups of less near ones, smallest first: by latency, cut at the
// `most` largest ratios of neighbours that part the devices in different ways, neither each for
// itself nor all together. By device, numbers from 0 in the order of `proximity`. Fewer than `most`
// where latencies do not tell so many apart.
[[nodiscard]] std::vector<std::vector<std::int32_t>> nested_groups(const model::Cluster& cluster,
                                                                   model::DeviceIndex master,
                                                                   std::size_t most);

// By wiring alone, whatever latencies are: a walk along a spanning tree, branches in order of
// index; devices of one router are a group, and devices without a router another.
[[nodiscard]] Proximity wiring(const model::Cluster& cluster, model::DeviceIndex master);

// The layouts that are worth trying: by wiring, with its groups and with one group; by latency,
// parted at every ratio of at least 2, the largest four first; up to 64 devices also in order of
// the latency to the master, and with each device followed by the nearest that is left. No two are
// alike.
[[nodiscard]] std::vector<Proximity> layouts(const model::Cluster& cluster,
                                             model::DeviceIndex master);

}  // namespace tandem::planner
