#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Returns a sentence on the devices of the plan (or of `only`) whose measured profiles contain
// times of other kernels than this program's, which may use any of `here` (exec::kernels_here());
// empty if there are none. A profile is outdated if
//   it names no kernels, or another generation than here: on any machine, as all devices run one
//   version of the program
//   it names other instruction sets than here: only if it was measured on this machine's processor
// Nominal profiles have no kernels and are never outdated. The second overload is for the devices
// that a search considers, excluded ones too.
[[nodiscard]] std::string outdated_remark(const Plan& plan,
                                          const std::vector<model::MeasuredKernels>& here,
                                          std::optional<model::DeviceIndex> only = std::nullopt);
[[nodiscard]] std::string outdated_remark(const model::Cluster& cluster,
                                          const std::vector<model::DeviceProfile>& profiles,
                                          const std::vector<model::MeasuredKernels>& here);

// Returns a sentence on the devices whose profiles were measured with another number of threads
// than `threads` (by DeviceIndex; 0: unknown, not reported), or do not state their number, so that
// predicted times may not be those of this run; empty if there are none. Nominal profiles have no
// threads.
[[nodiscard]] std::string threads_remark(const Plan& plan, std::span<const int> threads);

}  // namespace tandem::planner
