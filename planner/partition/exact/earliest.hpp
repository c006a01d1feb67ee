#pragma once

// Integer shares of equal units that minimise the latest finish.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tandem::planner {

using Counts = std::vector<std::int64_t>;

// Work in one or two phases. In phase p a device d with units is late by time(p, d, units) -
// limit[p][d]; the phase is late by its latest device, and the total lateness is the sum over
// phases of weight[p] times that.
struct Race {
  std::function<double(std::size_t phase, std::size_t device, std::int64_t units)> time;  // grows
  // Returns the most units that a phase completes in `seconds`; 0 if not even one.
  std::function<std::int64_t(std::size_t phase, std::size_t device, double seconds)> units;
  std::vector<double> weight;              // by phase
  std::vector<std::vector<double>> limit;  // by phase, device
};

// Returns the lateness of `counts`.
[[nodiscard]] double lateness(const Race& race, const Counts& counts);

// Returns the counts from `least` to `most` that sum to `total` and minimise lateness: exact with
// one phase. With two, tries the first one's lateness in steps and minimises the second's beside
// it. Nothing if there are no such counts.
[[nodiscard]] std::optional<Counts> earliest(const Race& race, const Counts& least,
                                             const Counts& most, std::int64_t total);

}  // namespace tandem::planner
