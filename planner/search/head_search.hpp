#pragma once

// Who computes the logits: the master alone, or every device some of them.

#include <string>
#include <variant>

#include "planner/search/search.hpp"

namespace tandem::planner {

// Why the LM head of the request's plan cannot be split; empty if it can.
[[nodiscard]] std::string head_obstacle(const Request& request);

// The plan of make_plan with the LM head as `request.head` says. Split: shares, sums and windows
// are those with the head at the master; its rows follow speed (that of a token's logits; given
// proportions, where the partition is such), in units of 64 where the vocabulary has many, as far
// as memory allows; `request.candidates` says what is sent. `automatic`: of the head at the master,
// split with all logits sent and, where candidates may be, with these, what is predicted to be the
// shortest for the objective. Infeasible if rows find no room. Throws Error where split is asked
// for and the strategy, the model or the number of devices does not offer it, and for candidates
// with the head at the master.
[[nodiscard]] std::variant<Plan, Infeasible> make_head_plan(Request request);

}  // namespace tandem::planner
