#pragma once

// Weights that lie split over devices, on their way to devices that compute with all of them.

#include <span>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

// What a device that holds `share` of `plan` declares besides: for each other device room for one
// block of attention and one of the FFN, as that has them in memory, and a receive buffer for what
// they give. Without the others' shares, which a plan without devices has not, only the latter.
[[nodiscard]] std::vector<model::BufferDeclaration> gathering_buffers(const Plan& plan,
                                                                      model::DeviceIndex device);

// Throws Error if a block of a layer is too large to travel: 2 GiB or more.
void check_gathered_blocks(const Plan& plan);

// Appends the transfers by which every device gets the blocks of all others, a block of a layer
// after another. A block's place is free once the same block of the layer before has been used;
// then its device asks for the next one, by one number of its residual stream (4 bytes), so that
// nobody sends ahead of that and what is asked for travels while others are computed. The first
// layer's come unasked.
class GatheredWeights {
 public:
  // `devices`: by rank; they and `graph` and `plan` outlive it. `asking`: by rank, a row of its
  // own that nobody else uses. Throws Error as check_gathered_blocks.
  GatheredWeights(model::TaskGraph& graph, const Plan& plan,
                  std::span<const model::DeviceIndex> devices, std::vector<std::int32_t> asking);

  // `rank` sends the first layer's, which nobody asks for, after this task: when it knows of the
  // step.
  void begins(std::size_t rank, model::TaskIndex first);
  // The ranks whose shares `rank` computes with, in that order, which fixes its sums: its own, then
  // those behind it in turn. If all send in that order, each is sent to once at any time.
  [[nodiscard]] std::vector<std::size_t> order(std::size_t rank) const;
  // `block` of `layer`, to the ranks that `wanted` is true of.
  void send(model::WeightBlock block, std::int32_t layer, const std::vector<bool>& wanted);
  // The transfer that last brought that of rank `of` to `rank`; -1: it is its own.
  [[nodiscard]] model::TaskIndex arrival(model::WeightBlock block, std::size_t of,
                                         std::size_t rank) const;
  // `rank` needs those of all others no longer after this task, its residual stream being there.
  void used(model::WeightBlock block, std::size_t rank, model::TaskIndex last);
  // The slot that receives rank `of`'s block (model::Task::weights_slot).
  [[nodiscard]] std::int16_t weights_slot(model::WeightBlock block, std::size_t of) const;

 private:
  struct Visit {
    model::TaskIndex arrival = -1;
    model::TaskIndex used = -1;
  };
  [[nodiscard]] std::size_t place(model::WeightBlock block, std::size_t of, std::size_t rank) const;

  model::TaskGraph* graph_;
  const Plan* plan_;
  std::span<const model::DeviceIndex> devices_;
  std::vector<std::int32_t> asking_;
  std::vector<model::TaskIndex> first_;  // by rank
  std::vector<Visit> visits_;            // by place()
};

}  // namespace tandem::planner
