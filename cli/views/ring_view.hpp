#pragma once

// What `tandem plan` says of requests that go round the stages of a plan.

#include <iosfwd>
#include <nlohmann/json.hpp>

#include "model/predict/pipeline_law.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::cli {

// Prints what a new token's round takes, and the rate with as many samples as the plan has in
// flight and at most.
void print_ring(const planner::Plan& plan, const model::Ring& ring, std::ostream& out);
// Prints how far the plan is from the lower bound of all splits; nothing where there is none.
void print_rate_bound(const planner::Plan& plan, std::ostream& out);

// The same as the fields `recurrent` and `bound` (null where there is none) of `--json`.
[[nodiscard]] nlohmann::ordered_json ring_json(const planner::Plan& plan, const model::Ring& ring);
[[nodiscard]] nlohmann::ordered_json rate_bound_json(const planner::Plan& plan);

}  // namespace tandem::cli
