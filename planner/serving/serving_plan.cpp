#include "planner/serving/serving_plan.hpp"

#include <algorithm>

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

std::variant<Plan, Infeasible> make_serving_plan(Request request,
                                                 std::span<const InferenceRequest> requests,
                                                 const Policy& policy, std::int64_t chunk) {
  request.workload = typical_workload(requests);
  const Capacity least = least_capacity(requests, chunk);
  Capacity capacity = wanted_capacity(requests, policy, chunk);
  while (true) {
    request.capacity = capacity;
    std::variant<Plan, Infeasible> answer = make_plan(request);
    if (std::holds_alternative<Plan>(answer) || capacity == least) return answer;
    const std::int64_t sequences = std::max<std::int64_t>(1, capacity.sequences / 2);
    capacity = larger(least, {.rows = least.rows + sequences - 1,
                              .positions = capacity.positions / 2,
                              .sequences = sequences});
  }
}

}  // namespace tandem::planner
