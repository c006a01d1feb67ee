#pragma once

// How often a step goes round the devices of a pipeline.

#include "planner/search/engine.hpp"

namespace tandem::planner {

// One round and, if its plan streams weights or there is none, growing numbers: more rounds cost
// messages, and gain only where weights stream meanwhile. Compares predictions of the request.
[[nodiscard]] const Axis& rounds_axis();

}  // namespace tandem::planner
