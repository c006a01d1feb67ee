#pragma once

// The capacity that requests need.

#include <cstdint>
#include <span>

#include "planner/plan/capacity.hpp"
#include "planner/plan/inference_request.hpp"

namespace tandem::planner {

struct Policy;

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
