#pragma once

#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {

[[nodiscard]] Policy recurrent_policy();

}  // namespace tandem::planner
