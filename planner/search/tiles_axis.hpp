#pragma once

// The number of tiles in which a prompt's products overlap its messages.

#include "planner/search/engine.hpp"

namespace tandem::planner {

// 0, 1, 2 and 4 tiles with the shares found for 1, as far as their messages fit: of all rows or,
// with sparse attention, of the rows that travel at each level. Compares trials of a few layers.
[[nodiscard]] const Axis& tiles_axis();

}  // namespace tandem::planner
