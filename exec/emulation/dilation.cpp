#include "exec/emulation/dilation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/task_graph.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::exec {
namespace {

constexpr double kUsable = 0.7;

bool computes(const model::Task& task) {
  return task.lane == model::LaneKind::cpu && task.kind != model::TaskKind::release;
}

// Whether the tasks that compute, of all devices, can only be executed one after the other: the
// longest way through the graph passes all of them.
bool is_chain(const model::TaskGraph& graph) {
  std::vector<std::int64_t> passed;                       // by task: of the longest way to its end
  std::map<model::DeviceIndex, model::TaskIndex> before;  // in the device's cpu lane
  std::int64_t count = 0;
  std::int64_t longest = 0;
  for (model::TaskIndex i = 0; i < graph.size(); ++i) {
    const model::Task& task = graph.tasks()[static_cast<std::size_t>(i)];
    std::int64_t most = 0;
    for (const model::TaskIndex d : graph.dependencies(i)) {
      most = std::max(most, passed[static_cast<std::size_t>(d)]);
    }
    if (computes(task)) {
      const auto [last, is_first] = before.try_emplace(task.device, i);
      if (!is_first) most = std::max(most, passed[static_cast<std::size_t>(last->second)]);
      last->second = i;
      ++count;
      ++most;
    }
    passed.push_back(most);
    longest = std::max(longest, most);
  }
  return longest == count;
}

// Of one step.
double peak_demand(const planner::Plan& plan, const model::TaskGraph& graph) {
  std::set<model::DeviceIndex> devices;
  for (const model::Task& task : graph.tasks()) {
    if (computes(task)) devices.insert(task.device);
  }
  const bool alone = is_chain(graph);
  double demand = 0.0;
  for (const model::DeviceIndex d : devices) {
    const double share = 1.0 / plan.cluster.devices()[static_cast<std::size_t>(d)].slowdown;
    demand = alone ? std::max(demand, share) : demand + share;
  }
  return demand;
}

}  // namespace

model::Cluster dilated(const model::Cluster& cluster, double dilation) {
  require(dilation >= 1.0, "dilated: time that passes faster");
  std::vector<model::Link> links = cluster.links();
  for (model::Link& link : links) {
    link.latency = model::Seconds{link.latency.value() * dilation};
    link.bandwidth = model::BytesPerSecond{link.bandwidth.value() / dilation};
  }
  return {cluster.name(), cluster.devices(), cluster.routers(), std::move(links), cluster.edges()};
}

double peak_demand(const planner::Plan& plan) {
  const planner::Strategy& strategy = planner::find_strategy(plan.strategy);
  double most = 0.0;
  for (const model::Batch& batch :
       {planner::prompt_batch(plan.workload),
        planner::decode_batch(static_cast<std::int32_t>(plan.workload.prompt_tokens))}) {
    most = std::max(most, peak_demand(plan, strategy.lower(plan, batch)));
  }
  return most;
}

double dilation_for(double demand, Pace pace, int cores) {
  require(pace != Pace::real && cores >= 1, "dilation_for: emulated time, on a machine");
  const double capacity = pace == Pace::measured ? 1.0 : cores;
  // Rounding errors of a sum must not cost a hundredth.
  return std::max(1.0, std::ceil(100.0 * demand / (kUsable * capacity) - 1e-6) / 100.0);
}

}  // namespace tandem::exec
