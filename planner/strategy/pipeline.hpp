#pragma once

#include "planner/lowering.hpp"

namespace tandem::planner {

// Layer-wise (pipeline) model parallelism: every device holds whole layers that follow one another;
// the residual stream goes from device to device and back to the master, which embeds and samples.
// One sequence is in one place at a time: devices wait for each other (no micro-batches).
//   messages a step: one for each device with layers but the first of them on the master, and one
//   back to the master unless it has the last layers
[[nodiscard]] Strategy pipeline_strategy();

// Who follows whom through the layers: the master, then the others as their layers do; by index
// where a plan has no shares yet.
[[nodiscard]] std::vector<model::DeviceIndex> stage_order(const Plan& plan);

}  // namespace tandem::planner
