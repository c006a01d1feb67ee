#pragma once

// Who computes the FFN of new tokens, where each has one owner (Decode::owner): the owner
// alone, or all devices, columns each, as every one has the weights.

#include <cstdint>
#include <variant>

#include "planner/search/search.hpp"

namespace tandem::planner {

// `plan`, found without, with the FFN of new tokens shared out. t_d is the time of the whole FFN of
// one row on device d, by the cost model, and M_d that of a message of a row of the residual stream
// from the owner to d and of its answer, or with `by_messages` false nothing. The owner has the sum
// after
//   T with sum over d of max(0, T - M_d) / t_d = 1
// at the least, and d gets columns in proportion to max(0, T - M_d) / t_d, which may be none. What
// messages share is not looked at.
[[nodiscard]] Plan with_shared_ffn(Plan plan, bool by_messages);

// What a request asks for that ends in a plan such as this one.
[[nodiscard]] TokenFfn token_ffn_of(const Plan& plan);

// As make_plan, with the FFN of new tokens as request.token_ffn says: shared out, by speed; or,
// automatic, the fastest by the objective, of what fits, of the owner alone, by speed and by speed
// and messages. Throws Error where the strategy or the workload has no such choice.
[[nodiscard]] std::variant<Plan, Infeasible> make_token_plan(Request request);

}  // namespace tandem::planner
