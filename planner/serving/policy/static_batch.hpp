#pragma once

#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {

[[nodiscard]] Policy static_batch_policy();

}  // namespace tandem::planner
