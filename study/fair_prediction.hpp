#pragma once

// Predictions for searches: without SimGrid, which is what predict_served takes most of its time
// for.

#include "model/result.hpp"
#include "planner/plan.hpp"
#include "study/prediction.hpp"

namespace tandem::study {

// What predict_served's result says of the requests, and its rate, to 1e-9 (sim::evaluate_fair);
// nothing else is filled in. On SimGrid where anything varies.
[[nodiscard]] model::Result predict_served_fairly(const planner::Plan& plan,
                                                  const ServedWorkload& served);

}  // namespace tandem::study
