#pragma once

// The FFN of new tokens with one owner (Decode::owner): computed by the owner alone, or shared by
// columns over all devices, as every device has the weights.

#include "planner/search/engine.hpp"

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

// Shared by speed; or, automatic, owner alone, by speed and messages, and by speed. Compares
// predictions of the objective.
[[nodiscard]] const Axis& token_ffn_axis();

}  // namespace tandem::planner
