#pragma once

// The requests that a plan was made for, and how they are served.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/plan/inference_request.hpp"

namespace tandem::planner {

struct Plan;

// Ids, arrivals and lengths of requests. Prompts, as text or token ids, and sampling parameters
// stay in the workload file.
struct PlannedService {
  std::int64_t samples = 0;  // requests of the plan's own lengths; 0: those of a workload file
  std::string file{};        // that file: absolute, or relative to the folder of the plan
  std::string sha256{};      // of its bytes
  bool raw_prompts = false;  // special tokens in its texts were encoded as plain text
  std::vector<InferenceRequest> requests{};  // of the file, in the order of arrival
  std::string policy{};
  std::int64_t chunk = 0;      // most rows of prompts in a step; 0: prompts are read whole
  std::int64_t in_flight = 0;  // requested steps in flight; 0: as many as are reserved for
  bool operator==(const PlannedService&) const = default;

  // Throws Error (field, value, expected, remedy) unless `plan` is consistent with this service:
  // mean lengths, steps in flight, and the requests that its model can serve.
  void validate(const Plan& plan) const;
};

// Returns `requests` without what PlannedService does not hold.
[[nodiscard]] std::vector<InferenceRequest> lengths_of(std::vector<InferenceRequest> requests);

}  // namespace tandem::planner
