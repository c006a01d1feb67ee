#pragma once

#include <span>

#include "planner/partition/budget.hpp"

namespace tandem::planner {

// Returns the computing capacities by device for Galaxy's balance (Ye et al., INFOCOM 2024, Eq. 6):
//   V_d = 1 / (time of one whole attention block and one whole FFN block on d)
// by the plan's cost model over its workload: once with the prompt's rows and, beyond the paper's
// single-shot inference, new_tokens - 1 times with one row at the mean context. Throws Error if
// that takes no time.
[[nodiscard]] std::vector<double> capacities(const Plan& plan);

// Returns `shares`, which sum to `total`, with the excess over `caps` redistributed to devices with
// free memory in proportion to their capacity, repeatedly: the recursion of Galaxy's
// MemoryAwareBalancing. A share above its cap is cut to it and stays there. If no device has free
// memory, the rest stays where it is.
[[nodiscard]] std::vector<std::int64_t> shares_within(std::span<const std::int64_t> shares,
                                                      std::span<const std::int64_t> caps,
                                                      std::span<const double> capacities,
                                                      std::int64_t total);

// Returns Galaxy's Algorithm 1, line by line: heads and columns in proportion to capacity; then,
// first for columns (line 21), then for heads (line 22), what exceeds a device's memory goes to
// devices with free memory in proportion to their capacity, repeatedly (lines 10 to 19). As in the
// paper this happens once: it fails (line 24) although some split fits if heads would have to move
// to free memory for another device's columns; exact_split() and any_split() find such splits.
//   Where the paper is silent: numbers are made whole by largest remainder, never above a memory
// limit; columns come in their preferred unit, and in the mandatory one if that fails; key/value
// heads, of which the paper's models have one a query head, are first counted as if no device cut a
// group of query heads, then, if that fails, as if every one did. The result satisfies
// budget.fits(), or the heuristic has found no such split.
[[nodiscard]] Split galaxy_split(const Budget& budget, std::span<const double> capacities);

}  // namespace tandem::planner
