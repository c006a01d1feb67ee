#pragma once

// What each request got out of a run, from the steps that were submitted and when their rows were
// sampled.

#include <span>
#include <string>
#include <vector>

#include "model/report/result.hpp"
#include "planner/plan/inference_request.hpp"
#include "planner/serving/request_capacity.hpp"

namespace tandem::planner {

// Returns what each of `requests` got out of `steps`, all of a run; sequences are positions in
// `requests`. Throws logic_error for a sequence that is none.
[[nodiscard]] std::vector<model::RequestResult> request_results(
    std::span<const InferenceRequest> requests, std::span<const model::ServedStep> steps);

// Returns the steps that a run has made, for `model::RecordedScheduler`: each waits for the arrival
// of the requests that begin in it, for an arrival that it was submitted at then (as a static batch
// waits for its last request) and for the outcomes of as many steps as had ended then, not for any
// other time of that run, so that a replay shows what the model makes of the same steps. Throws
// Error naming `source` unless every sequence is a request whose positions follow one another, in
// one step at a time, no earlier than it arrives, with a sample for each of its new tokens;
// requests are in the order of their arrival, steps in that of their submission.
[[nodiscard]] std::vector<model::ScheduledStep> replayed_steps(
    std::vector<model::ScheduledStep> schedule, std::span<const InferenceRequest> requests,
    const model::Transformer& model, const std::string& source);

// Throws Error naming `source`, the step, what it has and what there is room for, unless all steps
// keep within `capacity`: the rows and sequences of each, the positions that its sequences have in
// the cache until their last step is known to have ended, and how many were in flight.
void check_schedule(std::span<const model::ScheduledStep> schedule, const Capacity& capacity,
                    const std::string& source);

// The requests of a result, with as many new tokens as they were given, without what only a run
// needs.
[[nodiscard]] std::vector<InferenceRequest> requests_of(const model::Result& result);

// Sets requests, schedule and metrics of `result`: those of the run are the request's where there
// is only one.
void fill_requests(std::span<const InferenceRequest> requests,
                   std::span<const model::ServedStep> steps, model::Result& result);

}  // namespace tandem::planner
