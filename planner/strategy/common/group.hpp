#pragma once

// Devices that compute the same layers together, by heads and FFN columns: all devices in strategy
// `tensor`, the devices of a stage in a pipeline.

#include <vector>

#include "planner/collective/collective.hpp"
#include "planner/strategy/common/block.hpp"

namespace tandem::planner {

// A group of one has no sums.
class DeviceGroup {
 public:
  // `root`, one of `devices` (ascending), is the first of them in the plan's layout and receives
  // the group's result. All arguments outlive this.
  DeviceGroup(model::TaskGraph& graph, const Plan& plan, WindowTasks& window,
              model::DeviceIndex root, const std::vector<model::DeviceIndex>& devices);

  // Sends the residual stream, which `root` has after `ready`, to the other devices of the group.
  void receive(model::TaskIndex ready);
  // Appends the layers, with two sums each. The last sum goes to the root and, if `to_head`, to
  // devices with rows of the LM head. Returns the task after which the root has the result.
  model::TaskIndex compute(model::Range layers, bool to_head = false);
  // Returns, by device of the plan, the task after which it has that result; -1: not received.
  [[nodiscard]] std::vector<model::TaskIndex> replicas() const;

 private:
  [[nodiscard]] const model::Share& share(std::size_t member) const;
  void block(model::WeightBlock block, std::int32_t layer, bool last, bool to_head);
  void reduce(model::WeightBlock block, std::int32_t layer);

  model::TaskGraph* graph_;
  const Plan* plan_;
  model::DeviceIndex root_;
  Allreduce allreduce_;
  std::vector<DeviceTasks> tasks_;  // by index in the group, as are the others
  std::vector<Participant> participants_;
  std::vector<model::TaskIndex> ready_;  // the last task of each
};

}  // namespace tandem::planner
