#pragma once

// The placement of the LM head: all of it on the master, or rows on every device.

#include <string>
#include <variant>

#include "planner/search/search.hpp"

namespace tandem::planner {

// Returns why the LM head of the request's plan cannot be split; empty if it can.
[[nodiscard]] std::string head_obstacle(const Request& request);

// Returns make_plan's plan with the LM head placed as `request.head` requires. Split: shares, sums
// and windows are those with the head on the master; its rows follow the speed of a token's logits
// (or the given proportions, if the partition has them), in units of 64 for large vocabularies, as
// far as memory allows; `request.candidates` sets what is sent. `automatic`: the placement with the
// shortest predicted objective among the master alone, split with all logits sent, and split with
// candidates if they are allowed. Infeasible if the rows do not fit. Throws Error if a split is
// requested that the strategy, the model or the number of devices does not support, and for
// candidates with the head on the master.
[[nodiscard]] std::variant<Plan, Infeasible> make_head_plan(Request request);

}  // namespace tandem::planner
