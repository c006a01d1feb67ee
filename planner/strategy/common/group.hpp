#pragma once

// Devices that compute the same layers together, by heads and FFN columns: all of them in strategy
// `tensor`, those of a stage in a pipeline.

#include <vector>

#include "planner/collective/collective.hpp"
#include "planner/strategy/common/block.hpp"

namespace tandem::planner {

// A group of one makes no sums.
class DeviceGroup {
 public:
  // `root`, one of `devices` (which ascend), is the first of them in the plan's layout: it gets
  // what the group computes. All arguments outlive this.
  DeviceGroup(model::TaskGraph& graph, const Plan& plan, WindowTasks& window,
              model::DeviceIndex root, const std::vector<model::DeviceIndex>& devices);

  // The residual stream, which `root` has after `ready`, to those of the group who lack it.
  void receive(model::TaskIndex ready);
  // The layers, two sums in each, the last one for the root and, if `to_head`, for those who hold
  // rows of the LM head. Returns the task after which the root has the residual stream.
  model::TaskIndex compute(model::Range layers, bool to_head = false);
  // By device of the plan, the task after which it has that stream; -1: it did not get it.
  [[nodiscard]] std::vector<model::TaskIndex> replicas() const;

 private:
  [[nodiscard]] const model::Share& share(std::size_t member) const;
  void block(model::WeightBlock block, std::int32_t layer, bool last, bool to_head);
  void reduce(model::WeightBlock block, std::int32_t layer);

  model::TaskGraph* graph_;
  const Plan* plan_;
  model::DeviceIndex root_;
  Allreduce allreduce_;
  std::vector<DeviceTasks> tasks_;  // by place in the group, as are the others
  std::vector<Participant> participants_;
  std::vector<model::TaskIndex> ready_;  // the last task of each
};

}  // namespace tandem::planner
