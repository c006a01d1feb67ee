#pragma once

// Stages that pass layers to one another.

#include <cstddef>
#include <optional>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Returns `plan`, which has stages without rounds, with one layer more in stage `to` and one less
// in stage `from`; the runs of those between shift. The order of stages, their devices, and the
// heads and columns of each stay. Nothing if stage `from` has one layer, or if it does not fit.
[[nodiscard]] std::optional<Plan> with_layer_moved(const Plan& plan, std::size_t from,
                                                   std::size_t to);

}  // namespace tandem::planner
