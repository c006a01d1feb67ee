#include "advice/other_platform.hpp"

#include <algorithm>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "model/predict/similar_profile.hpp"
#include "planner/memory/plan_storage.hpp"

namespace tandem::study {
namespace {

using model::Device;
using model::DeviceProfile;
using model::DeviceShare;

std::string quoted_names(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 500;  // bytes
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return model::one_line(text, kShown);
}

std::vector<std::string> device_names(const model::Cluster& cluster) {
  std::vector<std::string> names;
  names.reserve(cluster.devices().size());
  for (const Device& device : cluster.devices()) names.push_back(device.name);
  return names;
}

// Returns `cluster` with the devices of these names alone, in this order.
model::Cluster with_named_devices(const model::Cluster& cluster,
                                  const std::vector<std::string>& names) {
  const std::vector<std::string> known = device_names(cluster);
  std::vector<std::string> missing;
  std::vector<bool> used(known.size(), false);
  for (const std::string& name : names) {
    const auto found = std::ranges::find(known, name);
    if (found == known.end()) {
      missing.push_back(name);
    } else {
      used[static_cast<std::size_t>(found - known.begin())] = true;
    }
  }
  if (!missing.empty())
    throw Error("platform '" + cluster.name() + "': has no device " + quoted_names(missing) +
                ", expected each of " + quoted_names(names) + "; it has " + quoted_names(known) +
                "; rename its hosts in a copy of the file, or plan for it");
  const model::Cluster few = of_devices(cluster, used);
  std::vector<Device> devices;
  devices.reserve(names.size());
  for (const std::string& name : names)
    devices.push_back(few.devices()[static_cast<std::size_t>(few.find(name))]);
  return {few.name(), std::move(devices), few.routers(), few.links(), few.edges()};
}

DeviceShare stated_share(const std::map<std::string, DeviceShare>& shares, const Device& device) {
  const auto found = shares.find(device.name);
  return found == shares.end() ? DeviceShare{} : found->second;
}

// Rates of the device's own kernels.
bool has_own_rates(const DeviceProfile& profile) {
  return profile.measured() && !model::is_similar(profile);
}

void check_measured_share(const planner::PlanFile& file, const StatedPlatform& platform,
                          const Device& device) {
  const DeviceShare planned = stated_share(file.shares, device);
  const DeviceShare stated = stated_share(platform.shares, device);
  if (planned.share == stated.share) return;
  throw Error("device '" + device.name + "': its profile was measured and is for a share of " +
              std::to_string(planned.share) + ", expected that share on platform '" +
              platform.cluster.name() + "', not " + std::to_string(stated.share) +
              "; plan for this platform");
}

// The rate of the disk of a device that keeps `profile`. `planned` is the device of the plan.
model::BytesPerSecond kept_disk(const Device& device, const Device& planned,
                                const DeviceProfile& profile) {
  const bool used_measured = profile.disk_bandwidth.value() > 0.0 &&
                             planned.disk_bandwidth == profile.disk_bandwidth &&
                             device.slowdown == 1.0;
  return model::disk_bandwidth(device, profile, !used_measured);
}

}  // namespace

MovedPlan on_platform(const planner::PlanFile& file, const StatedPlatform& platform) {
  MovedPlan moved{.file = file};
  planner::Plan& plan = moved.file.plan;
  plan.cluster = with_named_devices(platform.cluster, device_names(plan.cluster));
  moved.file.shares.clear();
  std::vector<Device> devices = plan.cluster.devices();
  for (std::size_t d = 0; d < devices.size(); ++d) {
    Device& device = devices[d];
    DeviceProfile& profile = plan.profiles[d];
    if (const auto share = platform.shares.find(device.name); share != platform.shares.end())
      moved.file.shares.insert(*share);
    if (has_own_rates(profile)) {
      check_measured_share(file, platform, device);
      const Device& planned = file.plan.cluster.devices()[d];
      device.disk_bandwidth = kept_disk(device, planned, profile);
      if (device.slowdown != planned.slowdown)
        profile = slowed(std::move(profile), device.slowdown / planned.slowdown);
      moved.measured.push_back(device.name);
      continue;
    }
    const double program_bytes = profile.program_bytes;
    profile = for_formats(platform.profiles.at(device.name), plan.model.formats, plan.model.cache);
    profile.program_bytes = program_bytes;
  }
  plan.cluster = {plan.cluster.name(), std::move(devices), plan.cluster.routers(),
                  plan.cluster.links(), plan.cluster.edges()};
  plan = planner::with_predicted_memory(std::move(plan));
  plan.validate();
  return moved;
}

}  // namespace tandem::study
