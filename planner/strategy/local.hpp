#pragma once

#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// The master computes everything; the other devices hold nothing.
[[nodiscard]] Strategy local_strategy();

}  // namespace tandem::planner
