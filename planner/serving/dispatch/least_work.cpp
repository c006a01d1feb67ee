// The replica that is predicted to finish the request first.

#include <algorithm>
#include <tuple>

#include "planner/serving/dispatch/dispatch.hpp"

namespace tandem::planner {
namespace {

std::size_t pick_earliest(std::span<const ReplicaLoad> loads) {
  const auto load_of = [](const ReplicaLoad& load) {
    return std::tuple(load.backlog_s + load.work_s, load.sent);  // idle equals take turns
  };
  return static_cast<std::size_t>(std::ranges::min_element(loads, {}, load_of) - loads.begin());
}

}  // namespace

Dispatch least_work_dispatch() {
  return {.name = "least-work",
          .summary = "the replica with the least predicted work, the request's included",
          .pick = pick_earliest};
}

}  // namespace tandem::planner
