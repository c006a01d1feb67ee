#include "planner/strategy/common/window_tasks.hpp"

#include "model/base/error.hpp"
#include "model/graph/tasks.hpp"

namespace tandem::planner {

using model::DeviceIndex;
using model::Range;
using model::Task;
using model::TaskIndex;
using model::WeightBlock;

WindowTasks::WindowTasks(model::TaskGraph& graph, const Plan& plan) : graph_(&graph), plan_(&plan) {
  std::int32_t events = 0;
  for (const DevicePlan& device : plan.devices) {
    Device& state = devices_.emplace_back();
    state.window = device.window;
    state.blocks = streamed_blocks(plan.model, device.share, device.window);
    state.first_event = events;
    events += device.window.blocks;
    for (const StreamedBlock& block : state.blocks) {
      if (block.block == WeightBlock::head) state.tiles.push_back(block.columns);
    }
    if (state.tiles.empty() && device.share.head)
      state.tiles.push_back(model::head_rows(plan.model, device.share));
  }
}

bool WindowTasks::fetches(DeviceIndex device) const {
  const auto d = static_cast<std::size_t>(device);
  return devices_[d].window.streams();
}

std::span<const Range> WindowTasks::head_tiles(DeviceIndex device) const {
  return devices_[static_cast<std::size_t>(device)].tiles;
}

TaskIndex WindowTasks::load(DeviceIndex device, WeightBlock block, std::int32_t layer,
                            Range columns) {
  Device& state = at(device);
  if (!state.window.streams()) return -1;
  if (block == WeightBlock::ffn && state.window.retains(layer)) return -1;
  require(state.loads < state.blocks.size(), "window: more blocks than the device streams");
  const StreamedBlock& next = state.blocks[state.loads];
  require(next.block == block && next.layer == layer && next.columns.contains(columns),
          "window: not the device's next streamed block");

  const Task task = model::load_task(device, block, layer, next.columns);
  // The sum of the block before does not reach this device.
  if (state.computed >= 0) reduced(device, {&state.computed, 1});
  const auto window = static_cast<std::size_t>(state.window.blocks);
  const std::size_t number = state.loads++;
  if (number < window) {
    return graph_->add(task, {}, {state.first_event + static_cast<std::int32_t>(number)});
  }
  return graph_->add(task, {state.releases[number - window]});
}

void WindowTasks::fail_no_pass(DeviceIndex device) const {
  throw Error("device '" + plan_->cluster.devices()[static_cast<std::size_t>(device)].name +
              "': streams the LM head, which every step has to pass, expected no chunk in the "
              "middle of a prompt, which does not; read prompts whole ('--chunk whole'), or plan "
              "with '--window all'");
}

void WindowTasks::computed(DeviceIndex device, TaskIndex last) {
  Device& state = at(device);
  if (state.releases.size() == state.loads) return;  // resident
  const bool summed = state.blocks[state.releases.size()].block != WeightBlock::head;
  // The block's sum may still be normalised by one of its weights.
  const bool late =
      plan_->release == model::ReleaseRule::late || plan_->model.architecture().sum_norms;
  if (summed && late) {
    state.computed = last;
  } else {
    release(device, {&last, 1});
  }
}

void WindowTasks::reduced(DeviceIndex device, std::span<const TaskIndex> sum) {
  if (at(device).computed < 0) return;
  release(device, sum);
  at(device).computed = -1;
}

// For the block loaded last.
void WindowTasks::release(DeviceIndex device, std::span<const TaskIndex> after) {
  Device& state = at(device);
  const StreamedBlock& block = state.blocks[state.releases.size()];
  state.releases.push_back(
      graph_->add(model::release_task(device, block.block, block.layer, block.columns), after));
}

void WindowTasks::finish() {
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    Device& state = devices_[d];
    if (!state.window.streams()) continue;
    if (state.computed >= 0) reduced(static_cast<DeviceIndex>(d), {&state.computed, 1});
    if (state.releases.size() != state.blocks.size()) fail_no_pass(static_cast<DeviceIndex>(d));
    for (std::size_t b = state.blocks.size() - static_cast<std::size_t>(state.window.blocks);
         b < state.blocks.size(); ++b) {
      graph_->record_event(state.releases[b]);
    }
  }
}

}  // namespace tandem::planner
