#pragma once

// Clusters made from others: experiments and sweeps vary a scenario.

#include <cstddef>
#include <functional>
#include <string>

#include "model/cluster/cluster.hpp"

namespace tandem::model {

// The cluster with other devices or links: `change` is given each of them, and may set its numbers.
[[nodiscard]] Cluster with_devices(const Cluster& cluster,
                                   const std::function<void(Device&)>& change);
[[nodiscard]] Cluster with_links(const Cluster& cluster, const std::function<void(Link&)>& change);
// The cluster's first `count` devices.
[[nodiscard]] Cluster first_devices(const Cluster& cluster, std::size_t count);
// The cluster without the device of that name. Throws Error as the constructor does, where others
// reach each other through it only.
[[nodiscard]] Cluster without_device(const Cluster& cluster, const std::string& name);
// The cluster with a last device like that of the name, called "NAME-2" (or the next number that is
// free): links that it alone uses are there twice, but media that are shared in any case (Wi-Fi).
// Throws Error as the constructor does, where routes go from device to device without a router.
[[nodiscard]] Cluster with_copy(const Cluster& cluster, const std::string& name);

// The cluster with devices `a` and `b` in each other's places among the devices.
[[nodiscard]] Cluster with_exchanged(const Cluster& cluster, DeviceIndex a, DeviceIndex b);
// The cluster without the routers and links that no device needs, with names by position, routers
// and links as they are met from the first device on. Of clusters for which it is equal all times
// are equal, too, device by device, where no two ways between devices are equally short; others may
// be alike all the same.
[[nodiscard]] Cluster anonymous(const Cluster& cluster);

}  // namespace tandem::model
