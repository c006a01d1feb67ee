#pragma once

// 90% intervals of what is predicted: the errors of the devices' profiles, propagated through the
// steps of the run. docs/explanation/cost-model.md has the method and what it assumes.

#include <span>
#include <vector>

#include "model/report/result.hpp"
#include "model/report/trace.hpp"
#include "planner/plan/inference_request.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::study {

// Sets the intervals of `result`, which predicts the plan's own workload, and what its environment
// says of them. A time's draw is the time plus what the draw adds to it on links that nothing
// contends for (model/predict/drawn_steps.hpp). `repetitions` are the metrics that other seeds gave
// for what varies by chance, the result's own among them: their spread is part of the intervals.
void set_intervals(const planner::Plan& plan, std::span<const model::Metrics> repetitions,
                   model::Result& result);

// Those of `requests`, which the plan serves in the steps `served`. In a draw, every step takes so
// many times as long as the draw says of it alone; the steps are the same, in the same order, none
// before the arrival of a request that begins in it. `repetitions` as above.
void set_served_intervals(const planner::Plan& plan,
                          std::span<const planner::InferenceRequest> requests,
                          std::span<const model::ServedStep> served,
                          std::span<const model::Result> repetitions, model::Result& result);

}  // namespace tandem::study
