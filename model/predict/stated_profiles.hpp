#pragma once

// Profiles of devices that were not measured.

#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/predict/device_profile.hpp"

namespace tandem::model {

// One profile a device: the speeds that the platform states, and the program's stated memory.
[[nodiscard]] std::vector<DeviceProfile> stated_profiles(const Cluster& cluster);

}  // namespace tandem::model
