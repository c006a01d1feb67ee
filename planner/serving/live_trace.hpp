#pragma once

// A trace that is served as a service is: no request is known before it arrives.

#include <cstddef>
#include <span>
#include <vector>

#include "planner/serving/request_scheduler.hpp"

namespace tandem::planner {

// Serves `requests`, each of which joins a RequestScheduler at its arrival. The steps are those of
// the trace that joins before it begins, except under policies that wait for later requests
// (`static`), which find only those that are there.
class LiveTrace : public model::Scheduler {
 public:
  // `requests` are sorted by arrival. Throws Error as RequestScheduler::join does, at once.
  LiveTrace(std::vector<InferenceRequest> requests, const Policy& policy,
            const ServingOptions& options);
  model::Decision next(double now, std::span<const model::StepOutcome> ended) override;

 private:
  std::vector<InferenceRequest> requests_;
  std::size_t joined_ = 0;
  RequestScheduler scheduler_;
};

}  // namespace tandem::planner
