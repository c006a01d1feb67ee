#pragma once

// Clusters made from others: experiments and sweeps vary a scenario.

#include <cstddef>
#include <functional>

#include "model/cluster.hpp"

namespace tandem::model {

// The cluster with other devices or links: `change` is given each of them, and may set its numbers.
[[nodiscard]] Cluster with_devices(const Cluster& cluster,
                                   const std::function<void(Device&)>& change);
[[nodiscard]] Cluster with_links(const Cluster& cluster, const std::function<void(Link&)>& change);
// The cluster's first `count` devices.
[[nodiscard]] Cluster first_devices(const Cluster& cluster, std::size_t count);

}  // namespace tandem::model
