#pragma once

// Checks for requests that contradict themselves or their strategy, before planning.

#include <string>

#include "model/cluster/cluster.hpp"
#include "planner/search/request.hpp"

namespace tandem::planner {

// Throws Error, in terms of the request's flags, for a choice that its strategy, its model or its
// devices do not offer: LM head, FFN of new tokens, tiles, sparse attention, gathered weights,
// rounds, partition 'halda', groups.
void check_request(const Request& request);
// The same for the window and its retention.
void check_window(const Request& request);

// Returns why the LM head of the request's plan cannot be split; empty if it can.
[[nodiscard]] std::string head_obstacle(const Request& request);

// Returns whether devices of `cluster` can gather weights from others (Request::gather_weights):
// not a device alone.
[[nodiscard]] bool can_gather(const model::Cluster& cluster);

}  // namespace tandem::planner
