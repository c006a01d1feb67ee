#include "planner/serving/serving_plan.hpp"

#include <algorithm>
#include <optional>

#include "model/base/error.hpp"
#include "planner/serving/request_capacity.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

Workload typical_workload(std::span<const InferenceRequest> requests) {
  const auto count = static_cast<std::int64_t>(requests.size());
  Workload sum;
  for (const InferenceRequest& request : requests) {
    sum.prompt_tokens += request.prompt_tokens;
    sum.new_tokens += request.new_tokens;
  }
  return {.prompt_tokens = (sum.prompt_tokens + count - 1) / count,
          .new_tokens = (sum.new_tokens + count - 1) / count};
}

namespace {

// Throws Error unless `plan` can have a step in the middle of a prompt, which samples nothing.
void check_inner_step(const Plan& plan) {
  const model::Batch inner{.segments = {{.sequence = 0, .past = 0, .rows = 1, .sampled = 0}},
                           .cache = {}};
  static_cast<void>(find_strategy(plan.strategy).lower(plan, inner));
}

void check_chunks(const Plan& plan, std::span<const InferenceRequest> requests,
                  std::int64_t chunk) {
  const auto parted = [chunk](const InferenceRequest& request) {
    return request.prompt_tokens > chunk;
  };
  if (chunk > 0 && std::ranges::any_of(requests, parted)) check_inner_step(plan);
}

bool must_stream(const Request& request) { return request.window.blocks.value_or(0) > 0; }

std::string fewer_in_flight(std::int64_t steps) {
  return "\nthis is with " + std::to_string(steps) +
         " steps in flight, of weights that stay in memory; fewer ('--in-flight " +
         std::to_string(steps - 1) + "', or as many as there is room for without it) need less";
}

}  // namespace

bool reads_chunks(const Plan& plan) {
  try {
    check_inner_step(plan);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::int64_t useful_steps(const Request& request, const Policy& policy) {
  if (!find_strategy(request.strategy).sharding.splits_layers() || must_stream(request)) return 1;
  if (request.rounds.value_or(1) > 1) return 1;        // each step goes round several times
  if (request.head == HeadPlacement::split) return 1;  // its devices all work on one step
  return policy.alone() ? kMostSteps : std::int64_t{request.cluster.size()};
}

void check_in_flight(std::span<const InferenceRequest> requests, std::int64_t chunk,
                     std::int64_t steps) {
  const std::int64_t most = most_in_flight(requests, chunk);
  if (steps <= most) return;
  throw Error(
      "in flight: " + std::to_string(steps) + " steps, but " + std::to_string(requests.size()) +
      (requests.size() == 1 ? " request has" : " requests have") + " at most " +
      std::to_string(most) + " to do at once" +
      (chunk > 0 ? " in chunks of " + std::to_string(chunk) : "") + "; plan with '--in-flight " +
      std::to_string(most) + "' or less, " +
      (chunk > 0 ? "shorter chunks" : "prompts in chunks ('--chunk N')") + " or more requests");
}

std::variant<Plan, Infeasible> make_serving_plan(Request request,
                                                 std::span<const InferenceRequest> requests,
                                                 const Policy& policy, std::int64_t chunk,
                                                 std::int64_t steps) {
  request.workload = typical_workload(requests);
  const bool streams = must_stream(request);
  check_in_flight(requests, chunk, steps);
  const std::int64_t most = steps > 0 ? steps : useful_steps(request, policy);
  const bool all_steps = steps > 1;  // those that are asked for, or none
  const Capacity least =
      all_steps ? least_capacity(requests, policy, chunk, steps) : least_capacity(requests, chunk);
  std::optional<Error> refused;
  const auto serves = [&](const std::variant<Plan, Infeasible>& answer) {
    const auto* const plan = std::get_if<Plan>(&answer);
    if (plan == nullptr) return false;
    try {
      check_chunks(*plan, requests, chunk);
    } catch (const Error& error) {  // with less at once its weights may stay in memory
      refused = error;
      return false;
    }
    return true;
  };
  std::variant<Plan, Infeasible> answer = Infeasible{};
  for (const Capacity& capacity : capacities(requests, policy, chunk, most, least)) {
    Request in_flight = request;
    in_flight.capacity = capacity;
    if (capacity.steps > 1) in_flight.window.blocks = 0;  // steps in flight load nothing
    if (capacity.steps > 1 && streams) in_flight.window = request.window;  // which is refused
    answer = make_plan(in_flight);
    if (serves(answer)) return answer;
    // The same number of sequences in one step, whose weights may stream. If each sequence has
    // steps of its own that serves one request; fewer requests in circulation with resident weights
    // are better.
    if (capacity.steps > 1 && steps == 0 && !policy.alone()) {
      request.capacity = capacity;
      request.capacity.steps = 1;
      answer = make_plan(request);
      if (serves(answer)) return answer;
    }
  }
  if (refused) throw Error(*refused);
  if (auto* const no = std::get_if<Infeasible>(&answer); no != nullptr && all_steps)
    no->reason += fewer_in_flight(steps);
  return answer;
}

Capacity serving_capacity(const Plan& plan, std::int64_t steps) {
  Capacity capacity = plan.reserved();
  if (steps > capacity.steps) {
    throw Error("in flight: " + std::to_string(steps) +
                " steps, but the plan reserves memory for " + std::to_string(capacity.steps) +
                "; plan with '--in-flight " + std::to_string(steps) +
                "' for at least as many requests at once");
  }
  if (steps > 0) capacity.steps = steps;
  return capacity;
}

}  // namespace tandem::planner
