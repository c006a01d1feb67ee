#include "model/predict/stated_profiles.hpp"

#include "model/graph/memory.hpp"

namespace tandem::model {

std::vector<DeviceProfile> stated_profiles(const Cluster& cluster) {
  std::vector<DeviceProfile> profiles;
  for (const Device& device : cluster.devices()) {
    profiles.push_back(nominal_profile(device));
    profiles.back().program_bytes = kProgramBytes;
  }
  return profiles;
}

}  // namespace tandem::model
