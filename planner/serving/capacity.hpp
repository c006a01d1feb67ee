#pragma once

// How much may be under way at once: what a plan reserves memory for, and what a scheduler keeps
// within.

#include <cstdint>
#include <span>
#include <string>

#include "planner/serving/inference_request.hpp"

namespace tandem::planner {

struct Policy;

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
// (planner/graph_cache.hpp).
inline constexpr std::int64_t kMostSteps = 16;

// The most sequences of one step, an even share of all: of 8 sequences with 3 steps in flight, 3.
[[nodiscard]] std::int64_t in_a_step(const Capacity& capacity);

// Returns what is enough for both: the larger in each respect.
[[nodiscard]] Capacity larger(const Capacity& a, const Capacity& b);

// Returns what `policy` makes use of, for `requests`, with prompts in chunks of `chunk` rows (0:
// whole): as many sequences as it ever has, as many of `steps` in flight as it has sequences and
// chunks for, the longest prompt, or a chunk of as many prompts as fill it, beside a row of every
// other sequence (of one step, if it is to be served so), and all their positions. Where each
// sequence has its steps for itself, no more sequences than steps, in steps of the longest prompt
// or chunk; where the chunk is a step's budget, no more sequences than it has rows, for each step,
// and no longer steps.
[[nodiscard]] Capacity wanted_capacity(std::span<const InferenceRequest> requests,
                                       const Policy& policy, std::int64_t chunk,
                                       std::int64_t steps = 1);

// Returns the most steps in which a scheduler that keeps within `capacity` serves `requests`: a
// step either samples a token or reads as many rows of prompts as a chunk and the capacity allow.
[[nodiscard]] std::int64_t most_steps(std::span<const InferenceRequest> requests,
                                      std::int64_t chunk, const Capacity& capacity);

// Returns the least with which every request can be served: one alone.
[[nodiscard]] Capacity least_capacity(std::span<const InferenceRequest> requests,
                                      std::int64_t chunk);

// Returns the most steps in flight that have something to do at once: one a request, or, with
// prompts in chunks, one a chunk; at most kMostSteps.
[[nodiscard]] std::int64_t most_in_flight(std::span<const InferenceRequest> requests,
                                          std::int64_t chunk);

// Returns the least with which every request can be served with `steps` in flight, at most
// most_in_flight(): as few sequences as have so many.
[[nodiscard]] Capacity least_capacity(std::span<const InferenceRequest> requests,
                                      const Policy& policy, std::int64_t chunk, std::int64_t steps);

}  // namespace tandem::planner
