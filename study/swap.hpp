#pragma once

// The cost of holding more than fits: the operating system's swap, and its limits.

#include <optional>

#include "model/base/units.hpp"

namespace tandem::study {

struct SwapDemand {
  model::Bytes needed{};   // everything the program holds
  model::Bytes touched{};  // the part that every pass (a token) reads, in the same order
};
struct SwapSpace {
  model::Bytes memory{};
  model::Bytes swap{};
  model::BytesPerSecond rate{};  // of the swap's disk, reading or writing
};
struct SwapTime {
  model::Seconds first_pass{};
  model::Seconds later_pass{};
};

// Returns the seconds that swapping adds to each pass; absent: out of memory.
//   needed > memory + swap     out of memory
//   touched <= memory          0: the rest is written out once, before
//   otherwise                  later = touched / rate,  first = 2 touched / rate
// Memory is reclaimed least recently used first. If a set larger than the memory is read in the
// same order again and again, every page is evicted before it is needed, so a pass reads all of it,
// not only the excess (Belady, IBM Systems Journal 5(2), 1966, on such loops). In the first pass an
// evicted page is dirty from loading, so it must be written as well. Overlap of swapping and
// computing is ignored. Throws logic_error unless rate is positive. Overlap of swapping and
// computing is ignored. Throws logic_error unless rate is positive.
[[nodiscard]] std::optional<SwapTime> swap_time(const SwapDemand& demand, const SwapSpace& space);

}  // namespace tandem::study
