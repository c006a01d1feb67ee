#pragma once

// Whole numbers of equal units, shared so that what takes longest ends as early as can be.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tandem::planner {

using Counts = std::vector<std::int64_t>;

// Work in one or two phases. In phase p device d, if it has any units, is late by
// time(p, d, units) - limit[p][d]; the phase is late by its latest device, and all by the sum of
// weight[p] times that.
struct Race {
  std::function<double(std::size_t phase, std::size_t device, std::int64_t units)> time;  // grows
  // The most units that a phase's `seconds` suffice for; 0 if not even one.
  std::function<std::int64_t(std::size_t phase, std::size_t device, double seconds)> units;
  std::vector<double> weight;              // by phase
  std::vector<std::vector<double>> limit;  // by phase, device
};

// How late `counts` are.
[[nodiscard]] double lateness(const Race& race, const Counts& counts);

// Counts from `least` to `most` that sum to `total` and are the least late: exactly with one phase.
// With two, the first one's lateness is tried in steps, and the second is then as early as it can
// be beside it. Nothing if there are no such counts.
[[nodiscard]] std::optional<Counts> earliest(const Race& race, const Counts& least,
                                             const Counts& most, std::int64_t total);

}  // namespace tandem::planner
