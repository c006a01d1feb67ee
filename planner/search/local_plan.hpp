#pragma once

// A plan for this machine alone, without a plan file.

#include <string>
#include <variant>

#include "planner/search/search.hpp"

namespace tandem::planner {

// Name of the platform and of its only device in results.
inline constexpr const char* kThisMachine = "this machine";

// Return a request for a plan of strategy `local`, and that plan, for `workload` on a device with
// `memory`, which streams weights from its disk if they do not fit. The device's speeds are typical
// values, not measured: they decide the layout of a window, and predict nothing.
[[nodiscard]] Request request_here(const model::Transformer& transformer, const Workload& workload,
                                   model::Bytes memory);
[[nodiscard]] std::variant<Plan, Infeasible> plan_here(const model::Transformer& transformer,
                                                       const Workload& workload,
                                                       model::Bytes memory);

// Returns one sentence on the effect of streaming for the user; empty if `plan`, made by
// plan_here(), keeps all weights in memory.
[[nodiscard]] std::string streaming_remark(const Plan& plan);

}  // namespace tandem::planner
