#pragma once

// How far a device's predicted times may be off: what its profile measured of that, and what is
// assumed where it measured nothing. docs/explanation/cost-model.md has the sources of the numbers.

#include <array>
#include <string>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/graph/task_graph.hpp"
#include "model/predict/device_profile.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

// Of each kind of task, where a profile states no error of it.
inline constexpr double kAssumedKindDeviation = 0.10;

// Standard deviations of the logarithm of true time / predicted time.
struct DeviceDeviation {
  double systematic = 0.0;  // of all tasks, and of all devices with the same profile
  double drift = 0.0;       // of all tasks of this device
  // Of the tasks of one kind, and of all devices with the same profile. transfer: what messages
  // cost beyond their links. load: all that the disk reads.
  std::array<double, kTaskKinds> kind{};
  bool operator==(const DeviceDeviation&) const = default;
};

// Of a device with `profile` that computes `transformer`. The errors of a rate add up in squares;
// where weights are in several formats, the greatest of their errors counts.
//   profile with errors   its drift, and by kind its errors; systematic: what a profile cannot see
//   profile without       constants
//   nominal               constants
[[nodiscard]] DeviceDeviation deviation_of(const DeviceProfile& profile,
                                           const Transformer& transformer);

// Says what the intervals of a prediction with these profiles, one a device, are made of: the
// profiles' errors, or what is assumed for which devices, and that links are taken as exact.
[[nodiscard]] std::string deviation_remark(const Cluster& cluster,
                                           const std::vector<DeviceProfile>& profiles);

}  // namespace tandem::model
