#include "planner/strategy/pipeline.hpp"

#include <algorithm>

#include "planner/strategy/block.hpp"
#include "planner/strategy/cover.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::TaskIndex;

const model::Share& share(const Plan& plan, DeviceIndex device) {
  return plan.devices[static_cast<std::size_t>(device)].share;
}

// The residual stream of all rows.
TaskIndex send(model::TaskGraph& graph, const Plan& plan, DeviceIndex from, DeviceIndex to,
               TaskIndex after) {
  return send_hidden(graph, plan.model, from, to, {0, graph.batch().rows()}, after);
}

// Loads are in the order of steps, the head's last, so that a master's lane that takes up another
// step before the head could wait for loads behind those that wait for it.
bool streams(const Plan& plan) {
  return std::ranges::any_of(plan.devices,
                             [](const DevicePlan& device) { return device.window.streams(); });
}

model::TaskGraph lower(const Plan& plan, const model::Batch& batch) {
  model::TaskGraph graph(batch);
  declare_buffers(graph, plan);
  WindowTasks window(graph, plan);
  DeviceIndex at = plan.master;
  TaskIndex last = DeviceTasks(graph, plan.model, at, &window).embed();
  for (const DeviceIndex device : stage_order(plan)) {
    const model::Share& held = share(plan, device);
    if (held.layers.empty()) continue;
    if (device != at) last = send(graph, plan, at, device, last);
    at = device;
    DeviceTasks stage(graph, plan.model, device, &window);
    for (std::int32_t layer = held.layers.begin; layer < held.layers.end; ++layer) {
      last = stage.add_partial(layer, stage.attention(layer, held.heads, last));
      last = stage.add_partial(layer, stage.ffn(layer, held.columns, last));
    }
  }
  if (at != plan.master) {
    last = send(graph, plan, at, plan.master, last);
    if (!streams(plan)) graph.begin_finish();
  }
  DeviceTasks(graph, plan.model, plan.master, &window).finish(last);
  window.finish();
  return graph;
}

void check(const Plan& plan) {
  check_master_ends(plan);
  check_layers(plan, stage_order(plan));
}

}  // namespace

std::vector<DeviceIndex> stage_order(const Plan& plan) {
  std::vector<DeviceIndex> order{plan.master};
  for (DeviceIndex device = 0; device < plan.cluster.size(); ++device) {
    if (device != plan.master) order.push_back(device);
  }
  if (plan.devices.empty()) return order;
  std::stable_sort(order.begin() + 1, order.end(), [&](DeviceIndex a, DeviceIndex b) {
    return share(plan, a).layers.begin < share(plan, b).layers.begin;
  });
  return order;
}

Strategy pipeline_strategy() {
  return {.name = "pipeline",
          .summary = "whole layers on each device, one after the other (model parallelism)",
          .splits_layers = true,
          .tasks = lower,
          .check = check};
}

}  // namespace tandem::planner
