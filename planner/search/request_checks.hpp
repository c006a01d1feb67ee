#pragma once

// What of a request for a plan contradicts itself, or its strategy, before anything is planned.

#include "model/cluster/cluster.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// Each throws Error, as whoever asked says it.
void check_window(const Request& request);
void check_tiles(const Request& request, const Strategy& strategy);
void check_sparse(const Request& request, const Strategy& strategy);
void check_gathering(const Request& request, const Strategy& strategy);

// Whether a device of `cluster` has others whose weights could come to it
// (Request::gather_weights): one alone gathers from nobody.
[[nodiscard]] bool can_gather(const model::Cluster& cluster);

}  // namespace tandem::planner
