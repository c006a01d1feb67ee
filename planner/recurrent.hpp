#pragma once

// A plan of stages as a ring that samples go round (model/recurrent.hpp).

#include <cstdint>

#include "model/recurrent.hpp"
#include "planner/plan.hpp"

namespace tandem::planner {

// What a step takes of each stage of `plan` and of the messages between them, as its lowered graph
// and the analytic evaluator have it.
//   past   positions before the rows; rows   of a prompt, or 1
// A new token's step has as many sequences as the plan's capacity has for one of its steps.
// Throws Error unless the plan's strategy gives devices whole layers.
[[nodiscard]] model::Ring ring_of(const Plan& plan, std::int64_t past, std::int64_t rows = 1);

// How many go round: as many as the plan has steps in flight, unless it has fewer sequences, whose
// chunks of prompts the others are for.
[[nodiscard]] std::int64_t samples_in_flight(const Plan& plan);

// That of a new token in the middle of the plan's workload: the mean over its tokens, since
// attention grows evenly.
[[nodiscard]] model::Ring typical_ring(const Plan& plan);

}  // namespace tandem::planner
