#pragma once

// Disks as `tandem plan --profile` has measured them.

#include <string>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/predict/device_profile.hpp"

namespace tandem::model {

// `cluster` with the disks that its devices will have (disk_bandwidth), which is what the
// simulator predicts with and an emulated run paces to. A device is the machine of its profile,
// not emulated on it, if `given` names it ("NAME=FILE") and the platform does not slow it down.
[[nodiscard]] Cluster with_measured_disks(const Cluster& cluster,
                                          const std::vector<DeviceProfile>& profiles,
                                          const std::vector<std::string>& given);

}  // namespace tandem::model
