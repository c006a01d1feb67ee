#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Returns a sentence on the devices of the plan (or on `only`) whose measured profiles tell the
// times of other kernels than this program's, which may use any of `here` (exec::kernels_here());
// empty if there is none:
//   no word of kernels, or another generation than here: whatever machine was measured, as devices
//     run one version of the program
//   other instruction sets than here: on this machine's processor only, as others have their own
// Nominal profiles are of no kernels.
// The second is for devices that a search considers: those that it leaves out counted, too.
[[nodiscard]] std::string outdated_remark(const Plan& plan,
                                          const std::vector<model::MeasuredKernels>& here,
                                          std::optional<model::DeviceIndex> only = std::nullopt);
[[nodiscard]] std::string outdated_remark(const model::Cluster& cluster,
                                          const std::vector<model::DeviceProfile>& profiles,
                                          const std::vector<model::MeasuredKernels>& here);

// Returns a sentence on the devices whose profiles were measured with other numbers of threads than
// `threads` (by DeviceIndex; 0: not known, and nothing is said), or do not tell with how many, so
// that predicted times may not be those of this run; empty if there are none. Nominal profiles are
// of no threads.
[[nodiscard]] std::string threads_remark(const Plan& plan, std::span<const int> threads);

}  // namespace tandem::planner
