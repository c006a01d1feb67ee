#include "planner/search/device_choice.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "model/cluster/cluster_edit.hpp"
#include "planner/collective/proximity.hpp"
#include "planner/search/request_checks.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;

// The master, then the others, those with most memory first, of equals in the order of `near`.
std::vector<DeviceIndex> by_memory(const model::Cluster& cluster, std::vector<DeviceIndex> near) {
  std::stable_sort(near.begin() + 1, near.end(), [&](DeviceIndex a, DeviceIndex b) {
    const auto memory = [&](DeviceIndex d) {
      return cluster.devices()[static_cast<std::size_t>(d)].memory.value();
    };
    return memory(a) > memory(b);
  });
  return near;
}

// Those of the first `count` of `order`.
std::vector<bool> first_of(const std::vector<DeviceIndex>& order, std::size_t count) {
  std::vector<bool> used(order.size(), false);
  for (std::size_t i = 0; i < count; ++i) used[static_cast<std::size_t>(order[i])] = true;
  return used;
}

Request with_profiles_of(Request request, const std::vector<bool>& used) {
  for (auto d = request.profiles.empty() ? 0 : std::ssize(used); d-- > 0;) {
    if (!used[static_cast<std::size_t>(d)]) request.profiles.erase(request.profiles.begin() + d);
  }
  return request;
}

}  // namespace

Request for_devices(Request request, const std::vector<bool>& used) {
  request.cluster = of_devices(request.cluster, used);
  return with_profiles_of(std::move(request), used);
}

Request without_devices(Request request, const std::vector<bool>& used) {
  request.cluster = without_devices(request.cluster, used);
  return with_profiles_of(std::move(request), used);
}

std::variant<FewestDevices, Infeasible> plan_on_fewest(const Request& request,
                                                       const Planning& planning) {
  Request with_master = request;
  if (request.master.empty()) with_master.master = request.cluster.devices().front().name;
  const std::vector<DeviceIndex> near =
      proximity(request.cluster, request.cluster.find(with_master.master)).order;
  const std::vector<DeviceIndex> large = by_memory(request.cluster, near);
  std::string fewer;
  for (std::size_t count = 1;; ++count) {
    std::string reason;
    std::vector<std::vector<bool>> choices{first_of(near, count)};
    if (first_of(large, count) != choices.front()) choices.push_back(first_of(large, count));
    for (const std::vector<bool>& used : choices) {
      Request of_these = for_devices(with_master, used);
      of_these.gather_weights = request.gather_weights && can_gather(of_these.cluster);
      auto answer = planning(of_these);
      if (auto* const plan = std::get_if<Plan>(&answer))
        return FewestDevices{.plan = std::move(*plan), .fewer = std::move(fewer)};
      reason = std::move(std::get<Infeasible>(answer).reason);
    }
    if (count == near.size()) return Infeasible{std::move(reason)};
    fewer = std::move(reason);
  }
}

}  // namespace tandem::planner
