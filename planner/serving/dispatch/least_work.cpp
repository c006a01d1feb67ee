// The replica that is predicted to finish the request first.

#include <algorithm>

#include "planner/serving/dispatch/dispatch.hpp"

namespace tandem::planner {
namespace {

std::size_t pick_earliest(std::span<const ReplicaLoad> loads) {
  const auto end_s = [](const ReplicaLoad& load) { return load.backlog_s + load.work_s; };
  return static_cast<std::size_t>(std::ranges::min_element(loads, {}, end_s) - loads.begin());
}

}  // namespace

Dispatch least_work_dispatch() {
  return {.name = "least-work",
          .summary = "the replica with the least predicted work, the request's included",
          .pick = pick_earliest};
}

}  // namespace tandem::planner
