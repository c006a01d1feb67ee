#pragma once

// The FFN of new tokens with one owner (Decode::owner): computed by the owner alone, or shared by
// columns over all devices, as every device has the weights.

#include <cstdint>
#include <variant>

#include "planner/search/search.hpp"

namespace tandem::planner {

// Returns `plan`, found without it, with the FFN of new tokens shared. t_d is the time of the whole
// FFN of one row on device d, by the cost model; M_d the time of a message of a row of the residual
// stream from the owner to d and of its answer, or 0 without `by_messages`. The owner has the sum
// after at least
//   T with sum over d of max(0, T - M_d) / t_d = 1
// and d gets columns in proportion to max(0, T - M_d) / t_d, possibly none. Contention between
// messages is ignored.
[[nodiscard]] Plan with_shared_ffn(Plan plan, bool by_messages);

// Returns the choice that leads to a plan such as this one.
[[nodiscard]] TokenFfn token_ffn_of(const Plan& plan);

// As make_plan, with the FFN of new tokens as request.token_ffn requires: shared by speed; or,
// automatic, the fastest feasible plan by the objective among owner alone, by speed, and by speed
// and messages. Throws Error if the strategy or the workload does not offer the choice.
[[nodiscard]] std::variant<Plan, Infeasible> make_token_plan(Request request);

}  // namespace tandem::planner
