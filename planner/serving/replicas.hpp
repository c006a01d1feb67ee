#pragma once

// Replicas: disjoint groups of devices, each with a plan of its own, which share out the requests.
// No replica uses a link of another, so each is predicted, and emulated, by itself. Requests reach
// a replica's master as text; the time that this takes is not counted.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/report/result.hpp"
#include "planner/plan/inference_request.hpp"
#include "planner/plan/plan.hpp"
#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {

// A plan, and how it serves its part of the requests.
struct Replica {
  Plan plan;
  const Policy* policy = nullptr;
  std::int64_t chunk = 0;                    // most rows of prompts in a step; 0: whole prompts
  std::int64_t steps = 0;                    // in flight at most; 0: as the plan reserves
  std::vector<InferenceRequest> made_for{};  // without prompts
  std::vector<std::size_t> requests{};       // assigned ones: positions in the workload, ascending
  // Returns the assigned requests.
  [[nodiscard]] std::vector<InferenceRequest> part(std::span<const InferenceRequest> all) const;
};

// Returns why the replicas depend on one another, with a link that messages of two of them pass;
// empty if there is none. Links whose bandwidth is not shared (FATPIPE) do not count.
[[nodiscard]] std::string shared_link(std::span<const Replica> replicas);

// Returns the result of all replicas from those of each, in their order; replicas without requests
// have empty ones. It has all of `requests`, the throughput from the first arrival to the last
// token, and devices and links of all; its plan and the statistics over all gaps between tokens are
// left empty.
[[nodiscard]] model::Result joined(std::span<const InferenceRequest> requests,
                                   std::span<const Replica> replicas,
                                   std::span<const model::Result> of_each);

}  // namespace tandem::planner
