// One request after another, in the order of their arrival.

#include <algorithm>

#include "planner/serving/policy/policy.hpp"

namespace tandem::planner {
namespace {

Admission admit(const Moment& moment) {
  if (moment.active > 0) return {.count = 0, .not_before = moment.now};
  return {.count = 1, .not_before = std::max(moment.now, moment.arrivals.front())};
}

}  // namespace

Policy sequential_policy() {
  return {.name = "sequential",
          .summary = "one request after another",
          .step = StepContents::one_request,
          .admit = admit};
}

}  // namespace tandem::planner
