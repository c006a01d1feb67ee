#include "planner/serving/policy/policy.hpp"

#include <algorithm>

#include "model/base/error.hpp"

namespace tandem::planner {

const Policy& find_policy(std::string_view name) {
  std::string known;
  for (const Policy& policy : policies()) {
    if (policy.name == name) return policy;
    if (!known.empty()) known += ", ";
    known += policy.name;
  }
  throw Error("policy '" + std::string(name) + "': unknown, expected one of " + known);
}

bool serves(const Policy& policy, std::int64_t chunk) { return !policy.budget() || chunk > 0; }

std::int64_t step_rows(const Policy& policy, std::int64_t reading, std::int64_t sequences,
                       std::int64_t chunk) {
  if (policy.alone()) return reading;
  const std::int64_t rows = reading + sequences - 1;
  return policy.budget() ? std::min(rows, chunk) : rows;
}

std::size_t arrived(std::span<const double> arrivals, double time) {
  return static_cast<std::size_t>(std::ranges::upper_bound(arrivals, time) - arrivals.begin());
}

}  // namespace tandem::planner
