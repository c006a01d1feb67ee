#pragma once

// Comparison of times in searches.

#include <limits>

namespace tandem::planner {

// The time, in seconds, of an infeasible candidate.
inline constexpr double kNever = std::numeric_limits<double>::infinity();
// A time is shorter than another only if it is below this fraction of it: smaller differences are
// rounding.
inline constexpr double kBetter = 1.0 - 1e-9;

}  // namespace tandem::planner
