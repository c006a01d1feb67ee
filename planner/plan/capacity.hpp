#pragma once

// The capacity of a plan: the rows, positions and sequences for which it reserves memory and within
// which a scheduler stays.

#include <cstdint>
#include <string>

namespace tandem::planner {

// Returns the positions reserved for a sequence of so many: whole blocks of the cache, so 64 for 1
// to 64 positions.
[[nodiscard]] std::int64_t reserved_positions(std::int64_t positions);

struct Capacity {
  std::int64_t rows = 0;       // tokens of one step
  std::int64_t positions = 0;  // in the key/value caches of all sequences
  std::int64_t sequences = 0;  // at once
  std::int64_t steps = 0;      // in flight at once; 0 and 1: one after another
  bool operator==(const Capacity&) const = default;
};

// Returns a text such as "steps of 20 rows, of 4 sequences with 512 positions".
[[nodiscard]] std::string to_text(const Capacity& capacity);

// Upper limit of concurrent sequences, whatever the memory: the announcement of a step holds no
// more.
inline constexpr std::int64_t kMostSequences = 4096;

// Upper limit of steps in flight: fewer than the cached step structures
// (planner/strategy/common/graph_cache.hpp).
inline constexpr std::int64_t kMostSteps = 16;

// Returns the most sequences of one step, an even share: of 8 sequences with 3 steps in flight, 3.
[[nodiscard]] std::int64_t in_a_step(const Capacity& capacity);

// Returns a capacity that is enough for both: the larger in each respect.
[[nodiscard]] Capacity larger(const Capacity& a, const Capacity& b);

}  // namespace tandem::planner
