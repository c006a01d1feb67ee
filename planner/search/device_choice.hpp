#pragma once

// The choice of a plan's devices: a given subset, or as few as hold the model.

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "planner/search/search.hpp"

namespace tandem::planner {

// Returns the request for the `used` devices alone (by DeviceIndex), with their profiles; a master
// that it names stays. Other devices pass messages on (model::of_devices), but compute nothing.
[[nodiscard]] Request for_devices(Request request, const std::vector<bool>& used);
// The same where the others are away (model::without_devices). Throws Error as that does.
[[nodiscard]] Request without_devices(Request request, const std::vector<bool>& used);

// Makes a plan of a request, as make_plan does.
using Planning = std::function<std::variant<Plan, Infeasible>(const Request&)>;

struct FewestDevices {
  Plan plan;
  std::string fewer{};  // why there is no plan on one device fewer; empty for one device
};

// Returns the plan of the fewest devices that have one (CSPS, 3.2.2: the caches' capacity dictates
// the number of devices, near ones first). For each number, tries the master (the first device if
// none is named) with the devices that a walk along the spanning tree by latency meets first, so
// that routes are short; then the master with the devices of most memory. Other subsets are not
// tried, so fewer devices might do where a strategy needs more memory on some than on others. If
// there is no plan, the reason is that for all devices. Throws what `planning` throws.
[[nodiscard]] std::variant<FewestDevices, Infeasible> plan_on_fewest(const Request& request,
                                                                     const Planning& planning);

}  // namespace tandem::planner
