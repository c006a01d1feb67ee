#pragma once

#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// The master does everything; the other devices hold nothing and do nothing.
[[nodiscard]] Strategy local_strategy();

}  // namespace tandem::planner
