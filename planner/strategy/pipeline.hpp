#pragma once

#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// Layer-wise (pipeline) model parallelism: a list of stages (strategy/common/stages.hpp), through
// which the residual stream goes and back to the master, which embeds and samples. A stage is a
// device with a run of layers, or several that compute them as strategy `tensor` does, or prompts
// as `galaxy` does (Plan::group_strategy), all rows of them; one device may be in several stages.
// One sequence is in one place at a time.
//   messages a step: one from stage to stage, to those who get what the others of a group compute
//   (the stage's root), one from there to each other device of the stage, its sums, and one back to
//   the master unless it has the last layers; none from a device to itself
[[nodiscard]] Strategy pipeline_strategy();

// Who follows whom through the layers: the master, then the others as their layers do; by index
// where a plan has no shares yet.
[[nodiscard]] std::vector<model::DeviceIndex> stage_order(const Plan& plan);

}  // namespace tandem::planner
