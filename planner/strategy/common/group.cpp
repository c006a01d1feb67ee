#include "planner/strategy/common/group.hpp"

#include "planner/strategy/common/rows.hpp"

namespace tandem::planner {

using model::DeviceIndex;
using model::Range;
using model::TaskIndex;
using model::WeightBlock;

DeviceGroup::DeviceGroup(model::TaskGraph& graph, const Plan& plan, WindowTasks& window,
                         DeviceIndex root, const std::vector<DeviceIndex>& devices)
    : graph_(&graph), plan_(&plan), root_(root), ready_(devices.size(), -1) {
  for (const DeviceIndex device : devices) {
    tasks_.emplace_back(graph, plan.model, device, &window);
    participants_.push_back({.device = device});
  }
  if (devices.size() > 1) {
    allreduce_ =
        parse_allreduce(is_prompt(graph.batch()) ? plan.allreduce.prompt : plan.allreduce.decode);
  }
}

const model::Share& DeviceGroup::share(std::size_t member) const {
  return plan_->devices[static_cast<std::size_t>(participants_[member].device)].share;
}

void DeviceGroup::receive(TaskIndex ready) {
  for (std::size_t m = 0; m < tasks_.size(); ++m) {
    ready_[m] = ready;
    if (participants_[m].device == root_) continue;
    ready_[m] = send_hidden(*graph_, plan_->model, root_, participants_[m].device,
                            {0, graph_->batch().rows()}, ready);
  }
}

TaskIndex DeviceGroup::compute(Range layers, bool to_head) {
  for (std::int32_t layer = layers.begin; layer < layers.end; ++layer) {
    const bool last = layer + 1 == layers.end;
    block(WeightBlock::attention, layer, last, to_head);
    block(WeightBlock::ffn, layer, last, to_head);
  }
  for (std::size_t m = 0; m < tasks_.size(); ++m) {
    if (participants_[m].device == root_) return ready_[m];
  }
  return -1;
}

std::vector<TaskIndex> DeviceGroup::replicas() const {
  std::vector<TaskIndex> there(plan_->devices.size(), -1);
  for (std::size_t m = 0; m < tasks_.size(); ++m) {
    if (participants_[m].receives)
      there[static_cast<std::size_t>(participants_[m].device)] = ready_[m];
  }
  return there;
}

void DeviceGroup::block(WeightBlock block, std::int32_t layer, bool last, bool to_head) {
  const bool attention = block == WeightBlock::attention;
  for (std::size_t m = 0; m < tasks_.size(); ++m) {
    Participant& p = participants_[m];
    const Range part = attention ? share(m).computed_heads() : share(m).computed_columns();
    p.contributes = !part.empty();
    p.receives =
        !last || (attention && !share(m).computed_columns().empty()) || (to_head && share(m).head);
    if (p.contributes) {
      p.ready = attention ? tasks_[m].attention(layer, part, ready_[m])
                          : tasks_[m].ffn(layer, part, ready_[m]);
    } else if (p.receives || p.device == root_) {
      ready_[m] = tasks_[m].pass_by(block, layer, ready_[m]);
    }
  }
  reduce(block, layer);
}

void DeviceGroup::reduce(WeightBlock block, std::int32_t layer) {
  if (tasks_.size() == 1) {
    ready_[0] = tasks_[0].add_partial(block, layer, participants_[0].ready);
    return;
  }
  lower_sum(*graph_,
            {.master = root_,
             .layer = layer,
             .rows = {0, graph_->batch().rows()},
             .columns = hidden_columns(plan_->model)},
            allreduce_, plan_->layout, participants_);
  for (std::size_t m = 0; m < tasks_.size(); ++m) {
    const Participant& p = participants_[m];
    if (p.device != root_ && !p.receives) {
      if (p.contributes) ready_[m] = p.ready;
      continue;
    }
    // A device that computed nothing may not yet have the residual stream it adds to.
    const TaskIndex hidden_ready = p.contributes ? -1 : ready_[m];
    ready_[m] = tasks_[m].add_partial(block, layer, p.sum, hidden_ready);
  }
}

}  // namespace tandem::planner
