#pragma once

// The request to which a plan is the answer: what `tandem whatif` and the free changes plan anew.

#include <string>
#include <vector>

#include "advice/ask.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/request.hpp"

namespace tandem::study {

// The devices of a plan, which a change may replace.
struct Scene {
  model::Cluster cluster;
  std::vector<model::DeviceProfile> profiles;  // by DeviceIndex of that cluster
  std::string master;
  std::vector<std::vector<std::string>> groups{};  // of a pipeline's stages, if it has such
};

// Returns the plan's own.
[[nodiscard]] Scene scene_of(const planner::Plan& plan);

// Returns the groups in the syntax of the planner, without empty ones: "a,b/c".
[[nodiscard]] std::string to_text(const std::vector<std::vector<std::string>>& groups);

// Returns the request of the plan's strategy on `scene`, planned by `evaluate`. Collectives, tiles,
// LM head, types, capacity and what travels for new tokens stay the plan's; shares, windows (if it
// streams weights) and rounds (if it has several) are left to the search, and so is a composition
// of sums for which the scene has no groups.
[[nodiscard]] planner::Request request_of(const planner::Plan& plan, const Scene& scene,
                                          planner::Evaluator evaluate);

// Returns what asks for that request: for `served` by its policy, in its chunks and with its steps
// in flight, if they were given (null: one request, whose prompt is read whole). It has no flags.
[[nodiscard]] Ask ask_of(const planner::Plan& plan, const ServedWorkload* served,
                         const Scene& scene, planner::Evaluator evaluate);

// Returns the same with all that `tandem plan` searches without a flag left open: collectives,
// tiles, what travels for new tokens, stages, rounds, chunks and steps in flight.
[[nodiscard]] Ask open_ask_of(const planner::Plan& plan, const ServedWorkload* served,
                              const Scene& scene, planner::Evaluator evaluate);

}  // namespace tandem::study
