#pragma once

// What searches compare times with.

#include <limits>

namespace tandem::planner {

// The time in seconds of what does not fit, or cannot be.
inline constexpr double kNever = std::numeric_limits<double>::infinity();
// A time is shorter than another if it is below this share of it: what is less than that is
// rounding.
inline constexpr double kBetter = 1.0 - 1e-9;

}  // namespace tandem::planner
