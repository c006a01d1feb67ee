#pragma once

// Devices that compute the rows of a prompt together, as Galaxy does (strategy/galaxy.cpp): all
// devices in strategy `galaxy`, the devices of a stage in a pipeline of such groups.

#include <optional>
#include <vector>

#include "planner/collective/collective.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/sparse/row_group_sparse.hpp"

namespace tandem::planner {

class RowGroup {
 public:
  // The root is the first of `devices` (ascending) in the plan's layout: it has the residual stream
  // before, and gets it after, for the rows that are `wanted` (by row of the batch). `graph`,
  // `plan` and `window` outlive this.
  RowGroup(model::TaskGraph& graph, const Plan& plan, WindowTasks& window,
           const std::vector<model::DeviceIndex>& devices, std::vector<bool> wanted);

  // Sends each device its rows of the residual stream, which the root has after `ready`.
  void scatter(model::TaskIndex ready);
  // Appends the layers: an all-gather and a reduce-scatter in each half.
  void compute(model::Range layers);
  // Sends wanted rows to the root. Returns the tasks after which it has them.
  std::vector<model::TaskIndex> collect();

 private:
  [[nodiscard]] const model::Share& share(std::size_t rank) const {
    return plan_->devices[static_cast<std::size_t>(ranking_.devices[rank])].share;
  }
  [[nodiscard]] model::Range columns(model::WeightBlock block, std::size_t rank) const {
    return block == model::WeightBlock::attention ? share(rank).heads : share(rank).columns;
  }
  [[nodiscard]] std::size_t tiles() const {
    return static_cast<std::size_t>(std::max(plan_->tiles, 1));
  }
  [[nodiscard]] bool overlaps() const { return plan_->tiles > 0; }
  [[nodiscard]] model::Range rows(std::size_t rank) const {
    return {tiles_[rank * tiles()].begin, tiles_[(rank + 1) * tiles() - 1].end};
  }

  void part_rows(std::int32_t total);
  model::TaskIndex send(std::size_t from, std::size_t to, model::Range rows,
                        model::TaskIndex after);
  void half(model::WeightBlock block, std::int32_t layer, bool last);
  void attend(std::int32_t layer);
  [[nodiscard]] Exchange exchange(model::WeightBlock block, std::int32_t layer, bool reduces,
                                  std::vector<model::Range> chunks);
  void gather(model::WeightBlock block, std::int32_t layer,
              const std::vector<model::TaskIndex>& normed);
  void reduce(model::WeightBlock block, std::int32_t layer, bool last);
  void add(model::WeightBlock block, std::int32_t layer, const Exchange& summing, std::int32_t rank,
           bool last);

  struct Result {
    std::size_t rank;
    model::Range rows;
    model::TaskIndex made;
  };

  model::TaskGraph* graph_;
  const Plan* plan_;
  Allreduce halves_;
  Ranking ranking_;
  std::vector<bool> wanted_;              // by row
  std::vector<DeviceTasks> devices_;      // by rank, as are all that follow
  std::vector<model::Range> tiles_;       // of rank 0, then of rank 1
  std::vector<model::TaskIndex> stream_;  // the task that wrote the rank's own rows of hidden
  std::vector<model::TaskIndex> last_;    // the product of this half
  std::vector<Result> result_;
  std::optional<RowGroupAttention> sparse_;  // where the plan has sparse attention
};

// Throws Error unless some of the devices hold heads and columns: only those get rows.
void check_rows(const Plan& plan, const std::vector<model::DeviceIndex>& devices);

}  // namespace tandem::planner
