#pragma once

#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// Pipeline parallelism, layer by layer: the residual stream passes through a list of stages
// (strategy/common/stages.hpp) and back to the master, which embeds and samples. A stage is one
// device with a run of layers, or several devices that compute it as strategy `tensor` does, or
// prompts as `galaxy` does (Plan::group_strategy), all rows of them. A device may be in several
// stages. A sequence is at one stage at a time.
//   messages a step: one between successive stages, to the stage's root, the device that gets its
//   group's result; one from the root to each other device of the stage; its sums; and one back to
//   the master unless it has the last layers; none from a device to itself
[[nodiscard]] Strategy pipeline_strategy();

// Returns the devices in the order of the pipeline: the master, then the others by their layers; by
// index for a plan without shares.
[[nodiscard]] std::vector<model::DeviceIndex> stage_order(const Plan& plan);

}  // namespace tandem::planner
