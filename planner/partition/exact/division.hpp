#pragma once

// A layer's heads and FFN columns over devices such that the slowest device of each half is as fast
// as possible: exact. Pure numbers in and out.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::planner {

struct DivisionDevice {
  // By number of heads, from none: seconds of attention with the fewest key/value heads, and with
  // one more, which the run touches if it begins within a group.
  std::vector<std::array<double, 2>> heads_s{};
  // The most units of columns that fit beside them; -1: the heads alone do not fit.
  std::vector<std::array<std::int64_t, 2>> room{};
  double first_s = 0.0;  // the FFN's seconds for the first unit of columns, and
  double next_s = 0.0;   // for each further one
  [[nodiscard]] double units_s(std::int64_t units) const {
    return units > 0 ? first_s + static_cast<double>(units - 1) * next_s : 0.0;
  }
};

// Devices follow one another through the heads, as in to_shares().
struct DivisionProblem {
  std::int64_t heads = 0;
  std::int64_t group = 1;  // query heads a key/value head
  std::int64_t units = 0;  // of columns
  std::vector<DivisionDevice> devices{};
  std::int64_t least_heads = 0;  // of each device
  std::int64_t least_units = 0;
  bool all_busy = true;  // each device has a head or a unit
};

struct Division {
  std::vector<std::int64_t> heads{};  // by device
  std::vector<std::int64_t> units{};
  double heads_s = 0.0;  // of the slowest device
  double units_s = 0.0;
};

// Returns the division that minimises  max over d of attention + max over d of FFN,  or nothing if
// nothing fits. For each attention time that some device may take, from the least on, finds the
// least FFN time by bisection, to rounding. A pair of times is feasible if the devices in order can
// take heads such that the columns that time and memory allow suffice, decided by dynamic
// programming over devices and heads. Ends when no later pair can be better.
[[nodiscard]] std::optional<Division> least_stragglers(const DivisionProblem& problem);

// Returns the minimum of  max over d of (attention + FFN)  over all divisions; infinite if nothing
// fits.
[[nodiscard]] double least_straggler_of_both(const DivisionProblem& problem);

}  // namespace tandem::planner
