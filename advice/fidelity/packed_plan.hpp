#pragma once

// Plan files with their profiles stated once, for recordings that are kept.

#include <string>
#include <string_view>

#include "model/predict/device_profile.hpp"

namespace tandem::study {

// `plan_file` without line breaks and without the profiles of those devices whose profile is
// `profile`, slowed down as the device is. Throws Error as planner::parse_plan_file(text, source).
[[nodiscard]] std::string packed_plan(std::string_view plan_file, std::string_view source,
                                      const model::DeviceProfile& profile);

// A plan file that equals the one that was packed, once parsed. Throws Error naming `source` if
// `packed` is no plan.
[[nodiscard]] std::string unpacked_plan(std::string_view packed, std::string_view source,
                                        const model::DeviceProfile& profile);

// `plan_file` with other measured profiles: `profile`, of the formats of the plan and slowed down
// as each device is. Throws Error as planner::parse_plan_file(text, source).
[[nodiscard]] std::string with_profile(std::string_view plan_file, std::string_view source,
                                       const model::DeviceProfile& profile);

}  // namespace tandem::study
