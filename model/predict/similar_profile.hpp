#pragma once

// Profiles of devices that were not measured, by a processor of the same make that was.

#include <string>

#include "model/cluster/cluster.hpp"
#include "model/predict/device_profile.hpp"

namespace tandem::model {

// A processor that was measured.
struct ReferenceProcessor {
  std::string name{};  // as platforms name it
  Device stated{};     // its flop rate and memory bandwidth, as a platform would state them
  DeviceProfile profile{};
};

// The profile of `device` whose kernels come as close to the roofline of its stated speeds as those
// of `reference` do to the roofline of its own:
//   seconds_per_byte(intensity) = roofline of device * measured / roofline of the reference
// Overheads are the reference's. What it was not measured in is nominal. Errors are those of a
// guess, and is_similar() of its source.
[[nodiscard]] DeviceProfile similar_profile(const Device& device,
                                            const ReferenceProcessor& reference);

// Whether a profile of this source was made by similar_profile().
[[nodiscard]] bool is_similar(const DeviceProfile& profile);

}  // namespace tandem::model
