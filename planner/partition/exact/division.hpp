#pragma once

// A layer's heads and FFN columns over devices, so that the straggler of each half is as early as
// can be: exact. Numbers in, numbers out.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::planner {

struct DivisionDevice {
  // By heads (from none): seconds of attention with as few key/value heads as they need, and with
  // one more, which they touch if they begin within a group.
  std::vector<std::array<double, 2>> heads_s{};
  // The most units of columns that memory has room for beside them; -1: not even those heads.
  std::vector<std::array<std::int64_t, 2>> room{};
  double first_s = 0.0;  // the FFN's seconds with one unit of columns, and
  double next_s = 0.0;   // with each further one
  [[nodiscard]] double units_s(std::int64_t units) const {
    return units > 0 ? first_s + static_cast<double>(units - 1) * next_s : 0.0;
  }
};

// Devices follow one another through the heads, as to_shares() deals them.
struct DivisionProblem {
  std::int64_t heads = 0;
  std::int64_t group = 1;  // query heads a key/value head
  std::int64_t units = 0;  // of columns
  std::vector<DivisionDevice> devices{};
  std::int64_t least_heads = 0;  // of each device
  std::int64_t least_units = 0;
  bool all_busy = true;  // each has a head or a unit
};

struct Division {
  std::vector<std::int64_t> heads{};  // by device
  std::vector<std::int64_t> units{};
  double heads_s = 0.0;  // of the straggler
  double units_s = 0.0;
};

// The division with the least  max over d of attention + max over d of FFN,  or none if nothing
// fits. For each time that some device may take for its heads, from the least on, the FFN's least
// time by halving, to rounding; a pair of times is enough if the devices, one after the other, can
// take heads such that the columns that time and memory leave room for suffice, which dynamic
// programming over devices and heads decides. Ends where no later pair can be better.
[[nodiscard]] std::optional<Division> least_stragglers(const DivisionProblem& problem);

// The least  max over d of (attention + FFN)  of any division; infinite if nothing fits.
[[nodiscard]] double least_straggler_of_both(const DivisionProblem& problem);

}  // namespace tandem::planner
