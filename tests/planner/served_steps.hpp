#pragma once

// The steps that a policy makes of requests, by the analytic evaluator.

#include <cstdint>
#include <vector>

#include "model/predict/analytic.hpp"
#include "model/report/trace.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/graph_cache.hpp"

namespace tandem::test {

inline std::vector<model::ServedStep> served_steps(
    const planner::Plan& plan, const std::vector<planner::InferenceRequest>& requests,
    const planner::Policy& policy, std::int64_t chunk) {
  planner::RequestScheduler scheduler(requests, policy,
                                      {.chunk = chunk,
                                       .capacity = planner::serving_capacity(plan, 0),
                                       .places = planner::CachePlaces(plan)});
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  planner::GraphCache graphs(plan);
  model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  return recorder.served();
}

}  // namespace tandem::test
