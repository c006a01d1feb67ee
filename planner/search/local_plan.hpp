#pragma once

// A plan without a plan file: this machine alone.

#include <string>
#include <variant>

#include "planner/search/search.hpp"

namespace tandem::planner {

// Name of the platform and of its only device, as results show it.
inline constexpr const char* kThisMachine = "this machine";

// Strategy `local` for `workload` on a device with `memory`, which streams weights from its disk if
// they do not fit. The device's speeds are typical ones that nothing measured: they decide how a
// window is laid out, and predict nothing.
[[nodiscard]] std::variant<Plan, Infeasible> plan_here(const model::Transformer& transformer,
                                                       const Workload& workload,
                                                       model::Bytes memory);

// What streaming means to the person who waits, one sentence; empty if `plan`, made by plan_here(),
// keeps all weights in memory.
[[nodiscard]] std::string streaming_remark(const Plan& plan);

}  // namespace tandem::planner
