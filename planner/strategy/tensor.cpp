#include "planner/strategy/tensor.hpp"

#include <numeric>

#include "planner/collective/collective.hpp"
#include "planner/strategy/block.hpp"
#include "planner/strategy/cover.hpp"
#include "planner/strategy/rows.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::Range;
using model::Share;
using model::TaskIndex;

class Lowering {
 public:
  Lowering(const Plan& plan, const model::Batch& batch)
      : plan_(&plan),
        graph_(batch),
        window_(graph_, plan),
        rows_{0, batch.rows()},
        allreduce_(
            parse_allreduce(is_prompt(batch) ? plan.allreduce.prompt : plan.allreduce.decode)),
        ready_(plan.devices.size(), -1) {
    for (DeviceIndex device = 0; device < plan.cluster.size(); ++device) {
      devices_.emplace_back(graph_, plan.model, device, &window_);
      participants_.push_back({.device = device});
    }
  }
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;

  model::TaskGraph run() && {
    declare_buffers(graph_, *plan_);
    begin();
    const auto layers = static_cast<std::int32_t>(plan_->model.layers);
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      const bool last = layer + 1 == layers;
      attention(layer, last);
      ffn(layer, last);
    }
    devices_[master()].finish(ready_[master()]);
    window_.finish();
    return std::move(graph_);
  }

 private:
  [[nodiscard]] std::size_t master() const { return static_cast<std::size_t>(plan_->master); }
  [[nodiscard]] const Share& share(std::size_t device) const {
    return plan_->devices[device].share;
  }

  // The master embeds and sends the residual stream to every worker that has work in the model.
  void begin() {
    const TaskIndex embedded = devices_[master()].embed();
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      ready_[d] = embedded;
      if (d == master()) continue;
      ready_[d] = send_hidden(graph_, plan_->model, plan_->master, static_cast<DeviceIndex>(d),
                              rows_, embedded);
    }
  }

  void attention(std::int32_t layer, bool last) {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      Participant& p = participants_[d];
      p.contributes = !share(d).heads.empty();
      p.receives = !last || !share(d).columns.empty();
      if (p.contributes) {
        p.ready = devices_[d].attention(layer, share(d).heads, ready_[d]);
      } else if (p.receives || d == master()) {
        ready_[d] = devices_[d].pass_by(model::WeightBlock::attention, layer, ready_[d]);
      }
    }
    reduce(layer);
  }

  void ffn(std::int32_t layer, bool last) {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      Participant& p = participants_[d];
      p.contributes = !share(d).columns.empty();
      p.receives = !last;
      if (p.contributes) {
        p.ready = devices_[d].ffn(layer, share(d).columns, ready_[d]);
      } else if (p.receives || d == master()) {
        ready_[d] = devices_[d].pass_by(model::WeightBlock::ffn, layer, ready_[d]);
      }
    }
    reduce(layer);
  }

  void reduce(std::int32_t layer) {
    lower_sum(graph_,
              {.master = plan_->master,
               .layer = layer,
               .rows = rows_,
               .columns = hidden_columns(plan_->model)},
              allreduce_, plan_->layout, participants_);
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const Participant& p = participants_[d];
      if (d != master() && !p.receives) {
        if (p.contributes) ready_[d] = p.ready;
        continue;
      }
      // A device that computed nothing may not yet have the residual stream it adds to.
      const TaskIndex hidden_ready = p.contributes ? -1 : ready_[d];
      ready_[d] = devices_[d].add_partial(layer, p.sum, hidden_ready);
    }
  }

  const Plan* plan_;
  model::TaskGraph graph_;
  WindowTasks window_;
  Range rows_;
  Allreduce allreduce_;
  std::vector<DeviceTasks> devices_;       // by DeviceIndex
  std::vector<Participant> participants_;  // by DeviceIndex
  std::vector<TaskIndex> ready_;           // by DeviceIndex: its last task
};

model::TaskGraph lower(const Plan& plan, const model::Batch& batch) {
  return Lowering(plan, batch).run();
}

void check(const Plan& plan) {
  check_master_ends(plan);
  std::vector<DeviceIndex> devices(plan.devices.size());
  std::iota(devices.begin(), devices.end(), 0);
  check_cover(plan, devices);
}

}  // namespace

Strategy tensor_strategy() {
  return {.name = "tensor",
          .summary = "heads and FFN columns split over all devices, two all-reduces a layer",
          .splits = true,
          .allreduce = "star",
          .tasks = lower,
          .check = check};
}

}  // namespace tandem::planner
