#pragma once

// The end of a step with a split LM head: devices other than the master hold rows of it.

#include <span>
#include <vector>

#include "planner/strategy/common/block.hpp"

namespace tandem::planner {

// Returns whether a device other than the master holds rows of the LM head.
[[nodiscard]] bool splits_head(const Plan& plan);

// Returns whether devices with rows of the LM head keep the logits of all sampled rows at once: a
// streamed head is read once.
[[nodiscard]] bool heads_at_once(const Plan& plan);

// Returns the columns of the candidates (model/graph/candidates.hpp) of a device with rows of the
// LM head, and of all such devices, which are consecutive.
[[nodiscard]] model::Range candidates_of(const Plan& plan, model::DeviceIndex device);
[[nodiscard]] model::Range all_candidates(const Plan& plan);

// Returns whether every row of the batch is sampled: then a sum for all devices also serves the
// head.
[[nodiscard]] bool samples_all(const model::Batch& batch);

// Appends the step's result on the master, which has the residual stream after all of `after`;
// returns the last task. Same as DeviceTasks::finish if the master holds the whole head. Else each
// device with rows of the head computes the final norm and its logits for the sampled rows, and the
// master samples from all of them:
//   hidden of those rows  master to device, with the rows between them, in the graph's wire format;
//                         not to devices that have it: `replicas` has, by device, the task after
//                         which, or -1; empty: no device has it
//   logits of those rows  device to master, always f32, as rounding would change tokens; with
//                         candidates (Plan::candidates), the best of each row instead
// If a head streams, its tiles are read once for all rows, and all devices compute all rows before
// the master samples; else work proceeds run by run (sampled_runs).
model::TaskIndex finish_step(model::TaskGraph& graph, const Plan& plan, WindowTasks& window,
                             DeviceTasks& master, std::span<const model::TaskIndex> after,
                             const std::vector<model::TaskIndex>& replicas = {});

}  // namespace tandem::planner
