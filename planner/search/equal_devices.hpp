#pragma once

// Devices that may take one another's place, so that a search plans for one of them.

#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/predict/device_profile.hpp"

namespace tandem::planner {

// Returns for each device the first device equal to it: exchanging the two changes neither speeds
// nor profiles nor the network (model::anonymous). Equality is sufficient, not necessary.
// On more than 64 devices each is by itself, as comparing networks takes long; so are the last
// ones of large meshes.
//   profiles   one a device, or none: as the cluster states
[[nodiscard]] std::vector<model::DeviceIndex> first_equals(
    const model::Cluster& cluster, const std::vector<model::DeviceProfile>& profiles);

}  // namespace tandem::planner
