#pragma once

// How requests are shared out among replicas (planner/serving/replicas.hpp), by predictions.

#include <span>
#include <vector>

#include "advice/prediction.hpp"
#include "planner/serving/dispatch/dispatch.hpp"
#include "planner/serving/replicas.hpp"

namespace tandem::study {

// Returns `requests` as the replica serves them.
[[nodiscard]] ServedWorkload served_by(const planner::Replica& replica,
                                       std::vector<planner::InferenceRequest> requests);

// Assigns `requests`, which are in the order of arrival, to `replicas` by `rule`, from predictions
// alone (sim::evaluate_fair_scheduled). With p the prompt's tokens of a request and n the
// most that it may generate, which is all that is known when it arrives, the work of a replica is
//   w(p, n) = b (p t + (n - 1) u)
// where t and u are its times for a token of a prompt and for a new one in a request of the mean
// lengths that it was made for, alone, and b <= 1 makes the sum over all requests that it was made
// for the time that it takes for all of them, present at once: requests that share steps take less
// time together. The backlog is what is left of the work that was assigned before. Open are
// requests whose predicted end, given those assigned before, is later than the arrival. A request
// goes only to replicas with the capacity for it; throws Error if there is none.
void dispatch(std::span<const planner::InferenceRequest> requests, const planner::Dispatch& rule,
              std::vector<planner::Replica>& replicas);

struct ReplicasPrediction {
  model::Result result;  // planner::joined
  std::vector<model::Result> of_each{};
};
// Predicts each replica with its part of `requests`. Throws Error as predict_served does.
[[nodiscard]] ReplicasPrediction predict_replicas(
    std::span<const planner::InferenceRequest> requests, std::span<const planner::Replica> replicas,
    EvaluatorKind evaluator);

}  // namespace tandem::study
