#pragma once

// A plan for many requests.

#include <span>
#include <variant>

#include "planner/plan/inference_request.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {

// The lengths of a typical request: the means, rounded up.
[[nodiscard]] Workload typical_workload(std::span<const InferenceRequest> requests);

// Returns how many steps in flight the devices of a plan for `request` can work on at once under
// `policy`: one, unless whole layers are split and nothing has to stream; then one for each device,
// or kMostSteps if each sequence has steps of its own.
[[nodiscard]] std::int64_t useful_steps(const Request& request, const Policy& policy);

// Returns whether `plan` can read a part of a prompt in a step.
[[nodiscard]] bool reads_chunks(const Plan& plan);

// Throws Error if more `steps` are in flight than `requests`, with prompts in chunks of `chunk`
// rows (0: whole), can ever use at once.
void check_in_flight(std::span<const InferenceRequest> requests, std::int64_t chunk,
                     std::int64_t steps);

// Makes a plan as make_plan does, for a typical request (request.workload is not read), with memory
// reserved for everything that `policy` can use or, if that does not fit, for half of it, a quarter
// and so on, down to one request at a time. Returns Infeasible if not even that fits.
//   steps   in flight, which the plan reserves memory for, else it is Infeasible; 0: at most
//           useful_steps(). Throws Error as check_in_flight does; for several with a strategy whose
//           devices all work on one step, or with a plan that streams weights; and for prompts in
//           chunks with a plan that streams its head even at the least capacity.
[[nodiscard]] std::variant<Plan, Infeasible> make_serving_plan(
    Request request, std::span<const InferenceRequest> requests, const Policy& policy,
    std::int64_t chunk, std::int64_t steps = 0);

// Returns the reserved capacity of `plan` with at most `steps` in flight; 0: as many as it
// reserves. Throws Error if it reserves memory for fewer.
[[nodiscard]] Capacity serving_capacity(const Plan& plan, std::int64_t steps);

}  // namespace tandem::planner
