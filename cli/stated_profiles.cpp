#include "cli/stated_profiles.hpp"

#include "model/memory.hpp"

namespace tandem::cli {

std::vector<model::DeviceProfile> stated_profiles(const model::Cluster& cluster) {
  std::vector<model::DeviceProfile> profiles;
  for (const model::Device& device : cluster.devices()) {
    profiles.push_back(nominal_profile(device));
    profiles.back().program_bytes = model::kProgramBytes;
  }
  return profiles;
}

}  // namespace tandem::cli
