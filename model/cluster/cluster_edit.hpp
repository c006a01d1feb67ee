#pragma once

// Clusters derived from others, for experiments and sweeps.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "model/cluster/cluster.hpp"

namespace tandem::model {

// Returns the cluster with changed devices or links: `change` may set the numbers of each.
[[nodiscard]] Cluster with_devices(const Cluster& cluster,
                                   const std::function<void(Device&)>& change);
[[nodiscard]] Cluster with_links(const Cluster& cluster, const std::function<void(Link&)>& change);
// Returns the cluster's first `count` devices.
[[nodiscard]] Cluster first_devices(const Cluster& cluster, std::size_t count);
// Returns the cluster with these of its devices, `used` having a flag for each, and the routes that
// they have: a device that is not used and lies between others becomes a router. Links that nothing
// uses any more stay. Throws Error if none is used.
[[nodiscard]] Cluster of_devices(const Cluster& cluster, const std::vector<bool>& used);
// Returns the cluster of those alone that are `used`: the others are away, and nothing passes
// through them. Throws Error as the constructor does, if devices reach each other through those
// only.
[[nodiscard]] Cluster without_devices(const Cluster& cluster, const std::vector<bool>& used);
// The same without the device of that name.
[[nodiscard]] Cluster without_device(const Cluster& cluster, const std::string& name);
// Returns the cluster with a further device equal to the named one, called "NAME-2" (or the next
// free number). Links that only the original uses are duplicated, except shared media (Wi-Fi).
// Throws Error as the constructor does, if routes go from device to device without a router.
[[nodiscard]] Cluster with_copy(const Cluster& cluster, const std::string& name);

// Returns the cluster with devices `a` and `b` exchanged in the order of devices.
[[nodiscard]] Cluster with_exchanged(const Cluster& cluster, DeviceIndex a, DeviceIndex b);
// Returns the cluster without the routers and links that no device needs, with names by position;
// routers and links in the order in which they are reached from the first device on, symmetrical
// edges from the first netpoint to the later one, links upwards where they are first met. Clusters
// with equal results have equal times, device by device, if no two routes between devices are
// equally short. The converse does not hold.
[[nodiscard]] Cluster anonymous(const Cluster& cluster);

}  // namespace tandem::model
