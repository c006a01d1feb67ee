#pragma once

// The capacity that requests need.

#include <cstdint>
#include <span>
#include <vector>

#include "planner/plan/capacity.hpp"
#include "planner/plan/inference_request.hpp"

namespace tandem::planner {

struct Policy;

// Returns the capacity that `policy` can use for `requests`, with prompts in chunks of `chunk` rows
// (0: whole): the most concurrent sequences; as many of `steps` in flight as there are sequences
// and chunks for; the rows of the longest prompt, or of as many prompts as fill a chunk, plus one
// row for every other sequence (of one step, if the policy serves them so); and all their
// positions. If each sequence has steps of its own: no more sequences than steps, with steps of the
// longest prompt or chunk. If the chunk is a step's row budget: for each step no more sequences
// than rows, and no longer steps.
[[nodiscard]] Capacity wanted_capacity(std::span<const InferenceRequest> requests,
                                       const Policy& policy, std::int64_t chunk,
                                       std::int64_t steps = 1);

// Returns the most steps in which a scheduler within `capacity` serves `requests`: a step either
// samples a token or reads as many rows of prompts as chunk and capacity allow.
[[nodiscard]] std::int64_t most_steps(std::span<const InferenceRequest> requests,
                                      std::int64_t chunk, const Capacity& capacity);

// Returns the least capacity that serves every request: one at a time.
[[nodiscard]] Capacity least_capacity(std::span<const InferenceRequest> requests,
                                      std::int64_t chunk);

// Returns the most steps in flight that can have work at once: one for each request or, with
// prompts in chunks, for each chunk; at most kMostSteps.
[[nodiscard]] std::int64_t most_in_flight(std::span<const InferenceRequest> requests,
                                          std::int64_t chunk);

// Returns the least capacity that serves every request with `steps` in flight, at most
// most_in_flight(): the fewest sequences that fill as many steps.
[[nodiscard]] Capacity least_capacity(std::span<const InferenceRequest> requests,
                                      const Policy& policy, std::int64_t chunk, std::int64_t steps);

// Returns the capacities that are tried for `requests` with at most `steps` in flight, the largest
// first: all that `policy` can use, half of it, a quarter and so on, and `least`.
[[nodiscard]] std::vector<Capacity> capacities(std::span<const InferenceRequest> requests,
                                               const Policy& policy, std::int64_t chunk,
                                               std::int64_t steps, const Capacity& least);

}  // namespace tandem::planner
