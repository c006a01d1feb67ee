#pragma once

// The results of requests, from the submitted steps and the times at which their rows were sampled.

#include <span>
#include <string>
#include <vector>

#include "model/report/result.hpp"
#include "planner/plan/inference_request.hpp"
#include "planner/serving/request_capacity.hpp"

namespace tandem::planner {

// Returns the results of `requests` from `steps`, all of a run; sequences are positions in
// `requests`. Throws logic_error for an unknown sequence.
[[nodiscard]] std::vector<model::RequestResult> request_results(
    std::span<const InferenceRequest> requests, std::span<const model::ServedStep> steps);

// Returns a run's steps for `model::RecordedScheduler`. Each waits for the arrival of the requests
// that begin in it, for an arrival at which it was submitted (as a static batch waits for its last
// request), and for the outcomes of as many steps as had ended then; not for other times of that
// run, so that a replay shows the model's times for the same steps. Throws Error naming `source`
// unless every sequence is a request whose positions are consecutive, in one step at a time, no
// earlier than its arrival, with a sample for each of its new tokens; requests must be in the order
// of arrival, steps in that of submission.
[[nodiscard]] std::vector<model::ScheduledStep> replayed_steps(
    std::vector<model::ScheduledStep> schedule, std::span<const InferenceRequest> requests,
    const model::Transformer& model, const std::string& source);

// Throws Error naming `source`, the step, its value and the limit unless all steps keep within
// `capacity`: rows and sequences of each, cached positions of its sequences until their last step
// is known to have ended, and steps in flight.
void check_schedule(std::span<const model::ScheduledStep> schedule, const Capacity& capacity,
                    const std::string& source);

// Returns the requests of a result, with as many new tokens as they received, without prompts and
// sampling parameters.
[[nodiscard]] std::vector<InferenceRequest> requests_of(const model::Result& result);

// Sets requests, schedule and metrics of `result`; with a single request, the run's metrics are the
// request's.
void fill_requests(std::span<const InferenceRequest> requests,
                   std::span<const model::ServedStep> steps, model::Result& result);

}  // namespace tandem::planner
