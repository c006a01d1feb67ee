#include "planner/serving/policy.hpp"

#include <algorithm>

#include "model/error.hpp"
#include "planner/serving/policy/continuous.hpp"
#include "planner/serving/policy/recurrent.hpp"
#include "planner/serving/policy/sequential.hpp"
#include "planner/serving/policy/static_batch.hpp"

namespace tandem::planner {

const std::vector<Policy>& policies() {
  static const std::vector<Policy> table{sequential_policy(), static_batch_policy(),
                                         continuous_policy(), recurrent_policy()};
  return table;
}

const Policy& find_policy(std::string_view name) {
  std::string known;
  for (const Policy& policy : policies()) {
    if (policy.name == name) return policy;
    if (!known.empty()) known += ", ";
    known += policy.name;
  }
  throw Error("policy '" + std::string(name) + "': unknown, expected one of " + known);
}

std::size_t arrived(std::span<const double> arrivals, double time) {
  return static_cast<std::size_t>(std::ranges::upper_bound(arrivals, time) - arrivals.begin());
}

}  // namespace tandem::planner
