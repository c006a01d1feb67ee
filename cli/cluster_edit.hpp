#pragma once

// Clusters made from others: experiments and sweeps vary a scenario.

#include <cstddef>
#include <functional>

#include "model/cluster.hpp"

namespace tandem::cli {

// The cluster with other devices or links; `change` is given each.
[[nodiscard]] model::Cluster with_devices(const model::Cluster& cluster,
                                          const std::function<void(model::Device&)>& change);
[[nodiscard]] model::Cluster with_links(const model::Cluster& cluster,
                                        const std::function<void(model::Link&)>& change);
// The cluster's first `count` devices.
[[nodiscard]] model::Cluster first_devices(const model::Cluster& cluster, std::size_t count);

}  // namespace tandem::cli
