#pragma once

#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {

[[nodiscard]] Policy sequential_policy();

}  // namespace tandem::planner
