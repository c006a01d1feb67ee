#pragma once

// The end of a step where devices beside the master hold rows of the LM head.

#include <span>
#include <vector>

#include "planner/strategy/common/block.hpp"

namespace tandem::planner {

// Whether some device beside the master holds rows of the LM head.
[[nodiscard]] bool splits_head(const Plan& plan);

// Whether devices with rows of the LM head keep logits of all sampled rows at once: a streamed head
// passes by once.
[[nodiscard]] bool heads_at_once(const Plan& plan);

// Columns of the candidates (model/graph/candidates.hpp): those of a device with rows of the LM
// head, and of all such devices, which follow one another.
[[nodiscard]] model::Range candidates_of(const Plan& plan, model::DeviceIndex device);
[[nodiscard]] model::Range all_candidates(const Plan& plan);

// Whether every row of the batch is sampled from: then a sum that all devices get serves the head.
[[nodiscard]] bool samples_all(const model::Batch& batch);

// The step's result, at the master, who has the residual stream with all of `after`; returns the
// last task. As DeviceTasks::finish, if the master has the whole head. Else each device with rows
// of it computes, for the rows of the batch that are sampled from, the final norm and its logits,
// and the master samples from them all:
//   hidden of those rows  master to device, with what lies between them, in the graph's wire
//   format;
//                         not to devices that have it already: `replicas`, by device the task after
//                         which, or -1; empty: nobody has
//   logits of those rows  device to master, always f32: what is rounded there changes tokens; where
//                         candidates are sent (Plan::candidates), the best of each row's instead
// Where some head streams, its tiles pass by once, for all rows, and everybody computes all rows
// before the master samples; else they go on from run to run (sampled_runs).
model::TaskIndex finish_step(model::TaskGraph& graph, const Plan& plan, WindowTasks& window,
                             DeviceTasks& master, std::span<const model::TaskIndex> after,
                             const std::vector<model::TaskIndex>& replicas = {});

}  // namespace tandem::planner
