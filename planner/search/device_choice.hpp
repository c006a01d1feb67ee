#pragma once

// Which devices of a cluster a plan is for: some, or as few as hold it.

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "planner/search/search.hpp"

namespace tandem::planner {

// The request for those devices alone that are used (by DeviceIndex), with their profiles; a master
// that it names stays. Throws Error where they reach each other through others only.
[[nodiscard]] Request for_devices(Request request, const std::vector<bool>& used);

// Makes a plan of a request, as make_plan does.
using Planning = std::function<std::variant<Plan, Infeasible>(const Request&)>;

struct FewestDevices {
  Plan plan;
  std::string fewer{};  // why there is no plan on one device fewer; empty for one device
};

// The plan of the fewest devices that have one (CSPS, 3.2.2: what caches hold dictates the number
// of devices, near ones first). Of each number the master, the first device if none is named, and
// those which a walk along the spanning tree by latency meets first, so that messages have short
// ways; if these have no plan, the master and those with most memory. No other devices are tried,
// so where a strategy needs more memory of some than of others, fewer might do. The reason why
// there is none is that of all devices. Throws what `planning` throws.
[[nodiscard]] std::variant<FewestDevices, Infeasible> plan_on_fewest(const Request& request,
                                                                     const Planning& planning);

}  // namespace tandem::planner
