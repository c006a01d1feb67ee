#include "planner/serving/live_trace.hpp"

#include <algorithm>
#include <utility>

namespace tandem::planner {

LiveTrace::LiveTrace(std::vector<InferenceRequest> requests, const Policy& policy,
                     const ServingOptions& options)
    : requests_(std::move(requests)), scheduler_(policy, options) {
  check_capacity(requests_, options.chunk, options.capacity);
}

model::Decision LiveTrace::next(double now, std::span<const model::StepOutcome> ended) {
  while (joined_ < requests_.size() && requests_[joined_].arrival_s <= now)
    scheduler_.join(std::move(requests_[joined_++]));
  model::Decision decision = scheduler_.next(now, ended);
  if (!decision.step && joined_ < requests_.size())
    decision.until_s = std::min(decision.until_s, requests_[joined_].arrival_s);
  return decision;
}

}  // namespace tandem::planner
