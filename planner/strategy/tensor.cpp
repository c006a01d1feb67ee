#include "planner/strategy/tensor.hpp"

#include <numeric>

#include "planner/strategy/common/cover.hpp"
#include "planner/strategy/common/group.hpp"
#include "planner/strategy/common/head.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;

std::vector<DeviceIndex> everybody(const Plan& plan) {
  std::vector<DeviceIndex> devices(plan.devices.size());
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

// The master embeds and sends the residual stream to every worker; all of them are one group.
model::TaskGraph lower(const Plan& plan, const model::Batch& batch) {
  model::TaskGraph graph(batch, plan.wire);
  WindowTasks window(graph, plan);
  const std::vector<DeviceIndex> devices = everybody(plan);
  DeviceTasks master(graph, plan.model, plan.master, &window);
  DeviceGroup group(graph, plan, window, plan.master, devices);
  group.receive(master.embed());
  const model::TaskIndex last = group.compute({0, static_cast<std::int32_t>(plan.model.layers)},
                                              splits_head(plan) && samples_all(batch));
  finish_step(graph, plan, window, master, {&last, 1}, group.replicas());
  window.finish();
  return graph;
}

void check(const Plan& plan) {
  check_master_ends(plan);
  check_cover(plan, everybody(plan));
}

}  // namespace

Strategy tensor_strategy() {
  return {.name = "tensor",
          .summary = "heads and FFN columns split over all devices, two all-reduces a layer",
          .sharding = {.weights = Weights::heads_and_columns,
                       .prefill = PrefillRows::whole,
                       .cache = KvCache::by_heads,
                       .decode = Decode::tensor},
          .allreduce = "star",
          .tasks = lower,
          .check = check};
}

}  // namespace tandem::planner
