#pragma once

// The collective and the layout of a plan's sums.

#include "planner/search/engine.hpp"

namespace tandem::planner {

// For strategies with a collective. Given collectives get the fastest layout. `auto` is, where
// requested, the first candidate that has a plan, then the fastest one (fastest_sums) for likely
// shares and for the shares of that plan: sums and shares depend on each other, so both orders are
// tried. Compares trials of a few layers.
[[nodiscard]] const Axis& sums_axis();

}  // namespace tandem::planner
