#pragma once

#include "planner/serving/policy.hpp"

namespace tandem::planner {

[[nodiscard]] Policy continuous_policy();

}  // namespace tandem::planner
