#pragma once

// Lower bounds on the times of a step's tasks and messages over all plans, from which bound.cpp
// builds its bounds.

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "planner/partition/budget.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/rows.hpp"

namespace tandem::planner {

// Returns whether some device may stream weights.
[[nodiscard]] bool may_stream(const Plan& plan);

// Costs of one step of `batch`, in seconds. `plan` outlives this; of its shares only whether the LM
// head is split is read.
class LeastCosts {
 public:
  LeastCosts(const Plan& plan, const model::Batch& batch);

  [[nodiscard]] model::DeviceIndex devices() const { return plan_->cluster.size(); }
  [[nodiscard]] std::int32_t rows() const { return batch_.rows(); }

  // Returns the time of the tasks that `make` appends to a DeviceTasks of `device`.
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
  // Return the time of the first and last tasks of the step on `device`, without logits if the LM
  // head is split, and the least over all devices.
  [[nodiscard]] double ends(model::DeviceIndex device) const;
  [[nodiscard]] double least_ends() const;

  // Return the time of one message of all rows from the nearest peer to `device`, or to that peer.
  [[nodiscard]] double way_in(model::DeviceIndex device) const { return way(device, false); }
  [[nodiscard]] double way_out(model::DeviceIndex device) const { return way(device, true); }
  // Returns the time of a capture or delivery of all rows.
  [[nodiscard]] double copy(model::DeviceIndex device, model::TaskKind kind) const;
  // Returns the time of the same bytes in any number of messages on one channel of `device`.
  [[nodiscard]] double any_way(model::DeviceIndex device) const;
  // Returns the time of one row from `device` to its nearest peer and back.
  [[nodiscard]] double there_and_back(model::DeviceIndex device) const;
  // Returns how long all rows occupy the best channel from or to `device`.
  [[nodiscard]] double channel(model::DeviceIndex device) const;
  [[nodiscard]] double channel_in(model::DeviceIndex device) const;

  // Returns the time of the first or second product of all rows with so many heads or columns, in
  // tiles as galaxy may choose them: one overhead, and the rows at the best rate of any tile.
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

// Upper bounds on shares by memory, without messages, which depend on the collective; for a device
// as the master or not. Unlimited if weights may stream.
class MostRoom {
 public:
  explicit MostRoom(const Plan& plan);
  // Returns the units of columns that fit beside so many heads; -1: the heads alone do not fit.
  [[nodiscard]] std::int64_t units(model::DeviceIndex device, bool master, std::int64_t heads,
                                   std::int64_t unit);
  [[nodiscard]] std::int64_t layers(model::DeviceIndex device);

 private:
  Budget budget(model::DeviceIndex device, bool master);
  Plan plan_;
  bool limited_ = false;
  bool splits_head_ = false;  // then a master need not hold all of it
};

}  // namespace tandem::planner
