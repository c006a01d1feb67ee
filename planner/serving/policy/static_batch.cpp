// As many requests as fit begin together, once the last of them has arrived; the next ones when all
// of these have ended. Requests that end earlier leave the steps, so no rows are computed in vain.

#include <algorithm>

#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {
namespace {

Admission admit(const Moment& moment) {
  if (moment.active > 0) return {.count = 0, .not_before = moment.now};
  const std::size_t count = std::min(moment.room, moment.arrivals.size());
  return {.count = count, .not_before = std::max(moment.now, moment.arrivals[count - 1])};
}

}  // namespace

Policy static_batch_policy() {
  return {.name = "static", .summary = "all at once, as one batch", .admit = admit};
}

}  // namespace tandem::planner
