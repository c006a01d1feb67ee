#pragma once

// Checks for requests that contradict themselves or their strategy, before planning.

#include "model/cluster/cluster.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// Each throws Error in terms of the request's flags.
void check_window(const Request& request);
void check_tiles(const Request& request, const Strategy& strategy);
void check_sparse(const Request& request, const Strategy& strategy);
void check_gathering(const Request& request, const Strategy& strategy);

// Returns whether devices of `cluster` can gather weights from others (Request::gather_weights):
// not a device alone.
[[nodiscard]] bool can_gather(const model::Cluster& cluster);

}  // namespace tandem::planner
