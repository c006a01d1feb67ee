#pragma once

#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {

[[nodiscard]] Policy continuous_policy();

}  // namespace tandem::planner
