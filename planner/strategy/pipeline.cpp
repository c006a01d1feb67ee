#include "planner/strategy/pipeline.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "model/base/error.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/cover.hpp"
#include "planner/strategy/common/group.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/rows.hpp"
#include "planner/strategy/common/stages.hpp"
#include "planner/strategy/row_group.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::TaskIndex;

// The residual stream of all rows.
TaskIndex send(model::TaskGraph& graph, const Plan& plan, DeviceIndex from, DeviceIndex to,
               const std::vector<TaskIndex>& after) {
  return send_hidden(graph, plan.model, from, to, {0, graph.batch().rows()}, after);
}

// Returns the tasks after which the stage's root has the result; it had its input after `ready`.
std::vector<TaskIndex> compute(model::TaskGraph& graph, const Plan& plan, WindowTasks& window,
                               const Stage& stage, TaskIndex ready) {
  if (plan.group_strategy == kGalaxyGroups && stage.devices.size() > 1 &&
      is_prompt(graph.batch())) {
    // The next stage, or the master's epilogue, is given all rows, as by a device alone.
    RowGroup group(graph, plan, window, stage.devices,
                   std::vector<bool>(static_cast<std::size_t>(graph.batch().rows()), true));
    group.scatter(ready);
    group.compute(stage.layers);
    return group.collect();
  }
  DeviceGroup group(graph, plan, window, stage.root, stage.devices);
  group.receive(ready);
  return {group.compute(stage.layers)};
}

// Loads are in the order of steps, the head's last, so a master's lane that runs another step
// before the head could wait for loads behind those that wait for it.
model::TaskGraph lower(const Plan& plan, const model::Batch& batch) {
  model::TaskGraph graph(batch, plan.wire);
  WindowTasks window(graph, plan);
  DeviceIndex at = plan.master;
  std::vector<TaskIndex> last{DeviceTasks(graph, plan.model, at, &window).embed()};
  for (const Stage& stage : stages(plan)) {
    if (stage.root != at) last = {send(graph, plan, at, stage.root, last)};
    at = stage.root;
    require(last.size() == 1, "pipeline: a stage begins with one message, or the embedding");
    last = compute(graph, plan, window, stage, last.front());
  }
  if (at != plan.master) {
    last = {send(graph, plan, at, plan.master, last)};
    // In further rounds the master computes between, so a step's epilogue would not be all. Nor
    // where others compute logits.
    if (!plan.streams() && !has_rounds(plan) && !splits_head(plan)) graph.begin_epilogue();
  }
  DeviceTasks master(graph, plan.model, plan.master, &window);
  finish_step(graph, plan, window, master, last);
  window.finish();
  return graph;
}

void check(const Plan& plan) {
  check_master_ends(plan);
  check_stages(plan);
  for (const Stage& stage : stages(plan)) {
    if (plan.group_strategy == kGalaxyGroups && stage.devices.size() > 1)
      check_rows(plan, stage.devices);
  }
  const model::LayerRuns& layers = plan.devices[static_cast<std::size_t>(plan.master)].share.layers;
  if (layers.empty() || layers.first() == 0) return;
  fail_share(plan, plan.master,
             "layers " + text(layers.run(0)) +
                 ": expected the master's to begin at 0, as it begins every step");
}

}  // namespace

std::vector<DeviceIndex> stage_order(const Plan& plan) {
  std::vector<DeviceIndex> order{plan.master};
  for (DeviceIndex device = 0; device < plan.cluster.size(); ++device) {
    if (device != plan.master) order.push_back(device);
  }
  if (plan.devices.empty()) return order;
  const auto first = [&](DeviceIndex device) {
    return plan.devices[static_cast<std::size_t>(device)].share.layers.first();
  };
  std::stable_sort(order.begin() + 1, order.end(),
                   [&](DeviceIndex a, DeviceIndex b) { return first(a) < first(b); });
  return order;
}

Strategy pipeline_strategy() {
  return {.name = "pipeline",
          .summary = "whole layers",
          .namesakes = {{.name = "mdi-llm", .flags = "--samples M --policy recurrent"},
                        {.name = "prima.cpp", .flags = "--partition halda"},
                        {.name = "llama.cpp"},
                        {.name = "exo"},
                        {.name = "petals"},
                        {.name = "edgeshard"},
                        {.name = "mesh-llm"},
                        {.name = "cake"}},
          .sharding = {.weights = Weights::layers,
                       .prefill = PrefillRows::whole,
                       .cache = KvCache::by_layers,
                       .decode = Decode::pipeline},
          .tasks = lower,
          .check = check};
}

}  // namespace tandem::planner
