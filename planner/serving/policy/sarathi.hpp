#pragma once

#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {

[[nodiscard]] Policy sarathi_policy();

}  // namespace tandem::planner
