#pragma once

#include <span>

#include "planner/partition/budget.hpp"

namespace tandem::planner {

// Computing capacities by device for Galaxy's balance (Ye et al., INFOCOM 2024, Eq. 6):
//   V_d = 1 / (time of one whole attention block and one whole FFN block on d)
// by the plan's cost model over its workload: once with the prompt's rows, and, which the paper's
// single-shot inference does not have, new_tokens - 1 times with one row at the mean context.
// Throws Error if that takes no time.
[[nodiscard]] std::vector<double> capacities(const Plan& plan);

// `shares`, which sum to `total`, with what exceeds `caps` given to those with room, in proportion
// to their capacity, and so on with what those cannot hold: the recursion of Galaxy's
// MemoryAwareBalancing. Shares beyond their cap are cut to it and leave the game. If nobody has
// room, what is left stays where it is.
[[nodiscard]] std::vector<std::int64_t> shares_within(std::span<const std::int64_t> shares,
                                                      std::span<const std::int64_t> caps,
                                                      std::span<const double> capacities,
                                                      std::int64_t total);

// Galaxy's Algorithm 1, line by line: heads and columns in proportion to capacity; then, first of
// columns (line 21), then of heads beside those (line 22), what exceeds a device's memory goes to
// the devices with memory to spare, in proportion to their capacity, and so on with what those
// cannot hold (lines 10 to 19). As in the paper that is done once: it fails (line 24) although some
// split fits where heads would have to move to make room for columns of another device, which
// exact_split() and any_split() find.
//   What the paper leaves open: numbers are whole by largest remainder, never past a memory limit;
// columns are dealt in their unit, and in the least if that fails; key/value heads, of which the
// paper's models have one a query head, are first counted as if no device cut a group of query
// heads, then, if that fails, as if every one did.
// The result fits budget.fits(), or else the heuristic has found nothing that does.
[[nodiscard]] Split galaxy_split(const Budget& budget, std::span<const double> capacities);

}  // namespace tandem::planner
