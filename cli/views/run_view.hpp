#pragma once

// What `tandem run` shows of a run, while it goes on and at its end.

#include "cli/views/generation_view.hpp"
#include "cli/views/prediction_watch.hpp"
#include "exec/session/execute.hpp"
#include "model/report/result.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::cli {

// Executes the plan with its texts, stages and remarks on `view`, beside the prediction that
// `watch` holds (null: none). Sets the functions that `run` calls; throws as exec::execute().
[[nodiscard]] exec::Execution show_execution(const planner::Plan& plan, exec::ExecuteOptions& run,
                                             GenerationView& view, PredictionWatch* watch);

// Prints how long the run took, on standard error.
void print_summary(const model::Result& result, const planner::Plan& plan);

}  // namespace tandem::cli
