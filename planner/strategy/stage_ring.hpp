#pragma once

// A plan of stages as a ring that samples go round (model/predict/pipeline_law.hpp).

#include <cstdint>

#include "model/predict/pipeline_law.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

// What a step takes of each stage of `plan` and of the messages between them, as its lowered graph
// and the analytic evaluator have it.
//   past   positions before the rows; rows   of a prompt, or 1
// A new token's step has as many sequences as the plan's capacity has for one of its steps.
// Throws Error unless the plan's strategy gives devices whole layers.
[[nodiscard]] model::Ring ring_of(const Plan& plan, std::int64_t past, std::int64_t rows = 1);

// The same plan by what its lanes do in a step: a stage for each device, t_i all that its computing
// thread is busy; as `other` the channel or link that all its messages of a step occupy longest; as
// delay what a lone step takes besides. No lane does two steps' work at a time, and no sample's
// steps overlap, so of any plan of stages
//   period >= token_period(lane_ring, M)
// and of groups, whose devices wait for one another within a step, so that other steps' work fills
// the waits,
//   token_period(lane_ring, M) <= period <= token_period(ring_of, M)
// where messages share no link (on links that are shared the second need not hold). Stages of one
// device have no waits within: both are equal. Throws Error as ring_of does.
[[nodiscard]] model::Ring lane_ring(const Plan& plan, std::int64_t past, std::int64_t rows = 1);

// How many go round: as many as the plan has steps in flight, unless it has fewer sequences, whose
// chunks of prompts the others are for.
[[nodiscard]] std::int64_t samples_in_flight(const Plan& plan);

// That of a new token in the middle of the plan's workload: the mean over its tokens, since
// attention grows evenly.
[[nodiscard]] model::Ring typical_ring(const Plan& plan);
// Of the same token, by lanes.
[[nodiscard]] model::Ring typical_lane_ring(const Plan& plan);

}  // namespace tandem::planner
