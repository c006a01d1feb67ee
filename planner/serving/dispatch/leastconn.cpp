// HAProxy's `leastconn` with equal weights: the fewest open requests; equals take turns.

#include <algorithm>
#include <tuple>

#include "planner/serving/dispatch/dispatch.hpp"

namespace tandem::planner {
namespace {

std::size_t pick_least_connected(std::span<const ReplicaLoad> loads) {
  const auto load_of = [](const ReplicaLoad& load) { return std::tuple(load.open, load.sent); };
  return static_cast<std::size_t>(std::ranges::min_element(loads, {}, load_of) - loads.begin());
}

}  // namespace

Dispatch leastconn_dispatch() {
  return {
      .name = "leastconn",
      .summary = "as the haproxy.cfg of the folder: the fewest open requests, equals take turns",
      .counts_open = true,
      .pick = pick_least_connected};
}

}  // namespace tandem::planner
