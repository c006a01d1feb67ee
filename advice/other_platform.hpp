#pragma once

// A plan on another platform than that which it was made for.

#include <map>
#include <string>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/predict/device_profile.hpp"
#include "model/predict/device_share.hpp"
#include "planner/plan/file/plan_file.hpp"

namespace tandem::study {

// A platform as its file states it.
struct StatedPlatform {
  model::Cluster cluster;                              // of the plan's devices at least
  std::map<std::string, model::DeviceShare> shares{};  // by device, of those used in part
  // By device: the speeds that the platform states of it.
  std::map<std::string, model::DeviceProfile> profiles{};
};

struct MovedPlan {
  planner::PlanFile file;
  std::vector<std::string> measured{};  // devices that keep the speeds which were measured on them
};

// Returns the plan of `file` on `platform`, whose devices are matched by name.
// From the platform: devices' speeds, memory, disks, slowdowns and shares, links, and routes.
// From the plan: all else, such as the devices, their shares of the model, the order of sums,
// windows, formats and requests. A profile that was measured stays with its device, scaled to the
// slowdown that the platform states, with the disk that it measured if the plan used that, else
// with the slower of both. Throws Error for devices that the platform lacks, for a device whose
// weights stream and that has no disk there, and for one with a measured profile whose share
// differs.
[[nodiscard]] MovedPlan on_platform(const planner::PlanFile& file, const StatedPlatform& platform);

}  // namespace tandem::study
