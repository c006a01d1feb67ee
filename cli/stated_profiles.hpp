#pragma once

// Profiles of devices that were not measured.

#include <vector>

#include "model/cluster.hpp"
#include "model/device_profile.hpp"

namespace tandem::cli {

// One a device: the speeds that the platform states, and the program's stated memory.
[[nodiscard]] std::vector<model::DeviceProfile> stated_profiles(const model::Cluster& cluster);

}  // namespace tandem::cli
