// The replica with the fewest open requests, as load balancers count connections.

#include <algorithm>
#include <tuple>

#include "planner/serving/dispatch/dispatch.hpp"

namespace tandem::planner {
namespace {

std::size_t pick_fewest(std::span<const ReplicaLoad> loads) {
  const auto load_of = [](const ReplicaLoad& load) { return std::tuple(load.open, load.work_s); };
  return static_cast<std::size_t>(std::ranges::min_element(loads, {}, load_of) - loads.begin());
}

}  // namespace

Dispatch fewest_open_dispatch() {
  return {.name = "fewest-open",
          .summary = "the replica with the fewest open requests, of equals the fastest",
          .counts_open = true,
          .pick = pick_fewest};
}

}  // namespace tandem::planner
