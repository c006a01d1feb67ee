#pragma once

// An independent derivation of the token time: the recurrence is a max-plus linear system, so its
// times grow by the largest cycle mean of its precedence graph.

#include "study/steady_state/memory_schedule.hpp"

namespace tandem::study {

// Returns ticks a token: the maximum, over the cycles of one token's precedence graph, of the
// cycle's times over the token boundaries it crosses (Baccelli, Cohen, Olsder, Quadrat,
// Synchronization and Linearity, 1992, theorem 3.23). Exact except for the rounding of one
// division; Howard's algorithm (Boost.Graph). Throws logic_error for an invalid schedule.
[[nodiscard]] double largest_cycle_mean(const MemorySchedule& schedule);

}  // namespace tandem::study
