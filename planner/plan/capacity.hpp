#pragma once

// How much may be under way at once: what a plan reserves memory for, and what a scheduler keeps
// within.

#include <cstdint>
#include <string>

namespace tandem::planner {

// How many positions are reserved for a sequence of so many: whole blocks of the cache, so 64 for 1
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

// The most sequences at once, whatever the memory: what the announcement of a step holds.
inline constexpr std::int64_t kMostSequences = 4096;

// The most steps in flight: fewer than the structures of steps that are kept
// (planner/strategy/common/graph_cache.hpp).
inline constexpr std::int64_t kMostSteps = 16;

// The most sequences of one step, an even share of all: of 8 sequences with 3 steps in flight, 3.
[[nodiscard]] std::int64_t in_a_step(const Capacity& capacity);

// Returns what is enough for both: the larger in each respect.
[[nodiscard]] Capacity larger(const Capacity& a, const Capacity& b);

}  // namespace tandem::planner
