#include "planner/serving/steps_in_flight.hpp"

#include <algorithm>
#include <set>

#include "planner/partition/search_effort.hpp"
#include "planner/plan/capacity.hpp"
#include "planner/serving/serving_plan.hpp"

namespace tandem::planner {
namespace {

constexpr double kSavesEnoughTime = 1.0 - 1e-4;

}  // namespace

bool may_fly(const Request& request, const Policy& policy) {
  return policy.several() && useful_steps(request, policy) > 1;
}

std::int64_t best_steps(std::int64_t usual, std::int64_t most, bool roughly,
                        const std::function<double(std::int64_t)>& seconds) {
  std::int64_t best = std::min(usual, most);
  double least = seconds(best);
  std::set<std::int64_t> tried{best};
  // Returns whether `steps` are new and the best so far.
  const auto consider = [&](std::int64_t steps) {
    if (steps < 1 || steps > most || search_ended() || !tried.insert(steps).second) return false;
    const double time = seconds(steps);
    const bool is_faster = time < least * kSavesEnoughTime;
    const bool is_smaller = steps < best && best != usual && time * kSavesEnoughTime < least;
    if (!is_faster && !is_smaller) return false;
    best = steps;
    least = std::min(least, time);
    return true;
  };
  consider(most);
  if (roughly) return best;
  for (std::int64_t steps = kMostSteps; steps > 0; steps /= 2) consider(steps);
  for (bool climbs = true; climbs;) {
    const std::int64_t from = best;
    climbs = false;
    for (const std::int64_t apart : {1, -1, 2, -2}) climbs = consider(from + apart) || climbs;
  }
  return best;
}

}  // namespace tandem::planner
