#include "planner/strategy/common/stages.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "model/base/error.hpp"
#include "planner/strategy/common/cover.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::Range;

// By the layout, which plans without groups have none of.
DeviceIndex root_of(const Plan& plan, const std::vector<DeviceIndex>& devices) {
  const auto found = std::ranges::find_if(plan.layout.order, [&](DeviceIndex device) {
    return std::ranges::find(devices, device) != devices.end();
  });
  return devices.size() == 1 || found == plan.layout.order.end() ? devices.front() : *found;
}

}  // namespace

std::vector<Stage> stages(const Plan& plan) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<DeviceIndex>> by_run;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const model::LayerRuns& layers = plan.devices[d].share.layers;
    for (std::size_t i = 0; i < layers.run_count(); ++i) {
      const Range run = layers.run(i);
      if (!run.empty()) by_run[{run.begin, run.end}].push_back(static_cast<DeviceIndex>(d));
    }
  }
  std::vector<Stage> found;
  for (auto& [run, devices] : by_run) {
    const DeviceIndex root = root_of(plan, devices);
    found.push_back(
        {.devices = std::move(devices), .root = root, .layers = {run.first, run.second}});
  }
  return found;
}

std::size_t round_count(const Plan& plan) {
  std::size_t most = 1;
  for (const DevicePlan& device : plan.devices)
    most = std::max(most, device.share.layers.run_count());
  return most;
}

bool has_rounds(const Plan& plan) { return round_count(plan) > 1; }

std::string group_names(const Plan& plan) {
  std::string names;
  if (!has_groups(plan)) return names;
  for (const Stage& stage : stages(plan)) {
    names += names.empty() ? "" : "/";
    for (const DeviceIndex device : stage.devices) {
      names += device == stage.devices.front() ? "" : ",";
      names += plan.cluster.devices()[static_cast<std::size_t>(device)].name;
    }
  }
  return names;
}

bool has_groups(const Plan& plan) {
  return std::ranges::any_of(stages(plan),
                             [](const Stage& stage) { return stage.devices.size() > 1; });
}

bool joins(const Plan& plan) {
  const Strategy& strategy = find_strategy(plan.strategy);
  return strategy.sharding.has_collective() ||
         (strategy.sharding.splits_layers() && has_groups(plan));
}

bool splits_rows(const Plan& plan) {
  return sharding_of(plan).splits_rows() || plan.group_strategy == kGalaxyGroups;
}

bool has_tiles(const Plan& plan) {
  return sharding_of(plan).exchanges_rows() || plan.group_strategy == kGalaxyGroups;
}

void check_stages(const Plan& plan) {
  std::int32_t next = 0;
  for (const Stage& stage : stages(plan)) {
    if (stage.layers.begin != next) {
      fail_share(plan, stage.devices.front(),
                 "layers " + text(stage.layers) + ": expected them to begin at " +
                     std::to_string(next) + ", where the stage before ends");
    }
    next = stage.layers.end;
    for (const DeviceIndex device : stage.devices) {
      const model::Share& share = plan.devices[static_cast<std::size_t>(device)].share;
      if (share.heads.empty() && share.columns.empty())
        fail_share(plan, device, "holds no heads and no columns of its layers: expected a share");
    }
    check_split(plan, stage.devices);
  }
  if (next != plan.model.layers) {
    throw Error("plan: layers of all devices end at " + std::to_string(next) + ": expected all " +
                std::to_string(plan.model.layers) +
                " of the model; make the plan again with `tandem plan`");
  }
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const model::Share& share = plan.devices[d].share;
    if (!share.layers.empty() || (share.heads.empty() && share.columns.empty())) continue;
    fail_share(plan, static_cast<DeviceIndex>(d),
               "holds heads " + text(share.heads) + " and FFN columns " + text(share.columns) +
                   ": expected none, as it has no layers");
  }
}

}  // namespace tandem::planner
