// Requests join at any step and leave when they end: continuous batching, or iteration-level
// scheduling (Orca, OSDI 2022).

#include "planner/serving/policy/continuous.hpp"

#include <algorithm>

namespace tandem::planner {
namespace {

Admission admit(const Moment& moment) {
  const double time =
      moment.active > 0 ? moment.now : std::max(moment.now, moment.arrivals.front());
  return {.count = std::min(moment.room, arrived(moment.arrivals, time)), .not_before = time};
}

}  // namespace

Policy continuous_policy() {
  return {.name = "continuous", .summary = "join and leave at every step", .admit = admit};
}

}  // namespace tandem::planner
