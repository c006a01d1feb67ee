#pragma once

// The least that tasks and messages of a step can take, whatever the plan: what bound.cpp is made
// of.

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "planner/partition/budget.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// Columns or heads [0, count).
[[nodiscard]] inline model::Range whole_range(std::int64_t count) {
  return {0, static_cast<std::int32_t>(count)};
}

// Whether weights need not be in memory on some device.
[[nodiscard]] bool may_stream(const Plan& plan);

// Of one step of `batch`. `plan` outlives it; of its shares only whether the LM head is split is
// read. Seconds throughout.
class LeastCosts {
 public:
  LeastCosts(const Plan& plan, const model::Batch& batch);

  [[nodiscard]] model::DeviceIndex devices() const { return plan_->cluster.size(); }
  [[nodiscard]] std::int32_t rows() const { return batch_.rows(); }

  // Of the tasks that `make` appends to a DeviceTasks of `device`.
  template <class Make>
  [[nodiscard]] double tasks(model::DeviceIndex device, const Make& make) const {
    model::TaskGraph graph(batch_);
    DeviceTasks made(graph, plan_->model, device);
    make(made);
    return sum(graph);
  }
  [[nodiscard]] double attention(model::DeviceIndex device, std::int64_t heads) const;
  [[nodiscard]] double ffn(model::DeviceIndex device, std::int64_t columns) const;
  [[nodiscard]] double add(model::DeviceIndex device) const;
  // What begins and ends the step on `device`, without logits where the LM head is split; and the
  // least of all.
  [[nodiscard]] double ends(model::DeviceIndex device) const;
  [[nodiscard]] double least_ends() const;

  // All rows in one message to `device` from whoever is nearest; or from it.
  [[nodiscard]] double way_in(model::DeviceIndex device) const { return way(device, false); }
  [[nodiscard]] double way_out(model::DeviceIndex device) const { return way(device, true); }
  // A capture or delivery of them.
  [[nodiscard]] double copy(model::DeviceIndex device, model::TaskKind kind) const;
  // The same bytes in any number of messages on one channel of `device`, in or out.
  [[nodiscard]] double any_way(model::DeviceIndex device) const;
  // One row from `device` to whoever is nearest, and back.
  [[nodiscard]] double there_and_back(model::DeviceIndex device) const;
  // What all rows occupy the best channel out of `device`, or to it.
  [[nodiscard]] double channel(model::DeviceIndex device) const;
  [[nodiscard]] double channel_in(model::DeviceIndex device) const;

  // The first or second product of all rows with so many heads or columns, in tiles as galaxy may
  // cut them: the overhead, and what the rows take at the best rate that some tile has.
  [[nodiscard]] double tiled(model::DeviceIndex device, model::WeightBlock block, bool first,
                             std::int64_t columns) const;

 private:
  [[nodiscard]] double sum(const model::TaskGraph& graph) const;
  [[nodiscard]] double way(model::DeviceIndex device, bool out) const;
  [[nodiscard]] double overhead(model::DeviceIndex device, model::WeightBlock block,
                                bool first) const;
  [[nodiscard]] double product(model::DeviceIndex device, model::WeightBlock block, bool first,
                               std::int32_t rows, std::int64_t columns) const;
  [[nodiscard]] double best_part(model::DeviceIndex device, model::WeightBlock block,
                                 bool first) const;
  [[nodiscard]] std::set<std::int32_t> tile_sizes() const;

  const Plan* plan_;
  model::CostModel costs_;
  model::Batch batch_;
  model::Task message_;          // all rows of the residual stream
  double bytes_;                 // of it
  std::vector<double> parts_{};  // best_part by device, block, product
};

// What memory leaves room for without any message, as those depend on the collective; of a device
// as the master or not. Everything where weights may stream.
class MostRoom {
 public:
  explicit MostRoom(const Plan& plan);
  // Units of columns beside so many heads; -1: not even those.
  [[nodiscard]] std::int64_t units(model::DeviceIndex device, bool master, std::int64_t heads,
                                   std::int64_t unit);
  [[nodiscard]] std::int64_t layers(model::DeviceIndex device);

 private:
  Budget budget(model::DeviceIndex device, bool master);
  Plan plan_;
  bool limited_ = false;
  bool splits_head_ = false;  // then a master need not have room for it
};

}  // namespace tandem::planner
