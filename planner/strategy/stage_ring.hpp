#pragma once

// A plan of stages as a ring through which samples circulate (model/predict/pipeline_law.hpp).

#include <cstdint>

#include "model/predict/pipeline_law.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Returns the times of a step in each stage of `plan` and of the messages between stages, from its
// lowered graph and the analytic evaluator.
//   past   positions before the rows; rows   of a prompt, or 1
// A new token's step has as many sequences as the plan's capacity has for one of its steps.
// Throws Error unless the plan's strategy gives devices whole layers.
[[nodiscard]] model::Ring ring_of(const Plan& plan, std::int64_t past, std::int64_t rows = 1);

// The same plan by lanes: a stage for each device, where t_i is the busy time of its computing
// thread in a step, `other` the longest time that all messages of a step occupy one channel or
// link, and `delay` the rest of a lone step's time. A lane works on one step at a time, and a
// sample's steps do not overlap, so for any plan of stages
//   period >= token_period(lane_ring, M)
// Devices of a group wait for one another within a step, and other steps fill the waits, so for
// groups
//   token_period(lane_ring, M) <= period <= token_period(ring_of, M)
// if messages share no link (on shared links the second bound need not hold). Stages of one device
// have no inner waits: both are equal. Throws Error as ring_of does.
[[nodiscard]] model::Ring lane_ring(const Plan& plan, std::int64_t past, std::int64_t rows = 1);

// Returns the number of samples in flight: the plan's steps in flight, but at most its sequences;
// the remaining steps are for chunks of prompts.
[[nodiscard]] std::int64_t samples_in_flight(const Plan& plan);

// Returns the ring of a new token in the middle of the plan's workload: the mean over its tokens,
// as attention grows linearly.
[[nodiscard]] model::Ring typical_ring(const Plan& plan);
// Returns the ring by lanes for the same token.
[[nodiscard]] model::Ring typical_lane_ring(const Plan& plan);

}  // namespace tandem::planner
