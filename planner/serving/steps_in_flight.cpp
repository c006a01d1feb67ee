#include "planner/serving/steps_in_flight.hpp"

#include <algorithm>
#include <vector>

#include "planner/partition/search_effort.hpp"
#include "planner/plan/capacity.hpp"
#include "planner/serving/serving_plan.hpp"

namespace tandem::planner {
namespace {

constexpr double kSavesEnoughTime = 1.0 - 1e-4;

// All numbers from 1 to `most`, powers of two first.
std::vector<std::int64_t> powers_first(std::int64_t most) {
  std::vector<std::int64_t> order;
  for (std::int64_t steps = kMostSteps; steps > 0; steps /= 2) {
    if (steps <= most) order.push_back(steps);
  }
  for (std::int64_t steps = most; steps > 0; --steps) {
    if (std::ranges::find(order, steps) == order.end()) order.push_back(steps);
  }
  return order;
}

}  // namespace

bool may_fly(const Request& request, const Policy& policy) {
  return policy.several() && useful_steps(request, policy) > 1;
}

std::int64_t best_steps(std::int64_t usual, std::int64_t most, bool roughly,
                        const std::function<double(std::int64_t)>& seconds) {
  const std::int64_t first = std::min(usual, most);
  std::int64_t best = first;
  double least = seconds(first);
  const std::vector<std::int64_t> all = roughly ? std::vector{most} : powers_first(most);
  for (const std::int64_t steps : all) {
    if (search_ended()) break;
    if (steps == first) continue;
    const double time = seconds(steps);
    const bool is_faster = time < least * kSavesEnoughTime;
    const bool is_smaller = steps < best && best != first && time * kSavesEnoughTime < least;
    if (!is_faster && !is_smaller) continue;
    best = steps;
    least = std::min(least, time);
  }
  return best;
}

}  // namespace tandem::planner
