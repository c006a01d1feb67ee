#include "model/predict/measured_disks.hpp"

#include <algorithm>

namespace tandem::model {

Cluster with_measured_disks(const Cluster& cluster, const std::vector<DeviceProfile>& profiles,
                            const std::vector<std::string>& given) {
  std::vector<Device> devices = cluster.devices();
  for (std::size_t i = 0; i < std::min(devices.size(), profiles.size()); ++i) {
    Device& device = devices[i];
    const bool named = std::ranges::any_of(
        given, [&](const std::string& text) { return text.starts_with(device.name + '='); });
    device.disk_bandwidth = disk_bandwidth(device, profiles[i], !named || device.slowdown != 1.0);
  }
  return {cluster.name(), std::move(devices), cluster.routers(), cluster.links(), cluster.edges()};
}

}  // namespace tandem::model
