#pragma once

#include "planner/serving/policy.hpp"

namespace tandem::planner {

[[nodiscard]] Policy sarathi_policy();

}  // namespace tandem::planner
