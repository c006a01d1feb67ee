#pragma once

#include "planner/serving/policy.hpp"

namespace tandem::planner {

[[nodiscard]] Policy sequential_policy();

}  // namespace tandem::planner
