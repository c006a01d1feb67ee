#pragma once

// What it costs to hold more than fits: the operating system's swap, and where that ends too.

#include <optional>

#include "model/base/units.hpp"

namespace tandem::study {

struct SwapDemand {
  model::Bytes needed{};   // everything the program holds
  model::Bytes touched{};  // of this, what every pass (a token) reads, in the same order
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

// Seconds that swapping adds to each pass; absent: out of memory.
//   needed > memory + swap     out of memory
//   touched <= memory          0: what is not touched is written out once, before
//   otherwise                  later = touched / rate,  first = 2 touched / rate
// Memory is reclaimed least recently used first, and of a set larger than the memory that is read
// in the same order again and again this evicts every page before it is needed: a pass reads all
// of it, not only what exceeds the memory (Belady, IBM Systems Journal 5(2), 1966, on such loops).
// In the first pass a page that goes was written by loading, so it must be written out as well.
// Overlap of swapping and computing is ignored. Throws logic_error unless rate is positive.
[[nodiscard]] std::optional<SwapTime> swap_time(const SwapDemand& demand, const SwapSpace& space);

}  // namespace tandem::study
