#pragma once

// How a plan serves requests that are not known when it is made.

#include <cstdint>
#include <optional>
#include <variant>

#include "planner/search/search.hpp"
#include "planner/serving/planned_service.hpp"
#include "planner/serving/policy/policy.hpp"
#include "planner/serving/service_search.hpp"

namespace tandem::planner {

struct LiveService {
  Plan plan;
  const Policy* policy = nullptr;
  std::int64_t chunk = 0;  // most rows of prompts in a step; 0: prompts are read whole
  std::int64_t steps = 0;  // in flight; 0: as many as the plan reserves memory for
  Capacity capacity{};
};

// Returns how `plan` serves: by the policy and chunk of `planned`; one that was made for a single
// request in the order of arrival, with prompts in chunks of its prompt's length. An encoder's
// reads one text after another, whatever `planned` is. Throws Error, naming the strategy, for a
// plan that can serve its one prompt only.
[[nodiscard]] LiveService live_service(Plan plan, const std::optional<PlannedService>& planned);

// Returns the most tokens of a text that the service of an encoder reads.
[[nodiscard]] std::int64_t longest_text(const LiveService& service);

// Returns a service on a device with `memory`, strategy `local`: four requests at once of up to
// 8,192 positions each, or fewer and then shorter ones until weights and caches fit; weights stream
// from the disk only if that does not suffice. An encoder: one text at a time of up to 8,192
// tokens, or shorter ones.
[[nodiscard]] std::variant<LiveService, Infeasible> service_here(
    const model::Transformer& transformer, model::Bytes memory);

// Returns a plan of request_here() for one request, and how its prompt is read: in chunks of
// `chunk` rows, whole (0) or, without it, whole if it fits so with all weights in memory, else in
// chunks as make_fitting_plan() finds, else whole with weights that stream. Throws Error as
// make_plan does.
[[nodiscard]] std::variant<ServicePlan, Infeasible> plan_prompt_here(
    const model::Transformer& transformer, const Workload& workload, model::Bytes memory,
    std::optional<std::int64_t> chunk);

}  // namespace tandem::planner
