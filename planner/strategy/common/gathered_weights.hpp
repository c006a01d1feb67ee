#pragma once

// Gathers weights that are split over devices to devices that compute with all of them.

#include <span>
#include <string>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Returns what a device with `share` of `plan` declares for gathering: for each other device memory
// for one block of attention and one of the FFN, as stored there, and a receive buffer for their
// partial results. Without the others' shares (a plan without devices), only the latter.
[[nodiscard]] std::vector<model::BufferDeclaration> gathering_buffers(const Plan& plan,
                                                                      model::DeviceIndex device);

// Returns why devices of `plan` with these shares, one a device, cannot gather: a block of a layer
// is too large for a message, 2 GiB or more; empty if they can.
[[nodiscard]] std::string too_large_to_gather(const Plan& plan,
                                              std::span<const model::Share> shares);

// Throws Error if a block of the plan's shares is too large for a message.
void check_gathered_blocks(const Plan& plan);

// Appends the transfers by which every device receives the blocks of all others, one block of a
// layer after another. A slot is free once the same block of the previous layer has been used; its
// device then requests the next one with one number of its residual stream (4 bytes). No device
// sends before that request, and requested blocks travel while others are computed. The first
// layer's blocks need no request.
class GatheredWeights {
 public:
  // `devices`: by rank; they, `graph` and `plan` outlive this. `asking`: by rank, a row of its own
  // that no other task uses. Throws Error as check_gathered_blocks.
  GatheredWeights(model::TaskGraph& graph, const Plan& plan,
                  std::span<const model::DeviceIndex> devices, std::vector<std::int32_t> asking);

  // Sets the task after which `rank` sends the first layer's blocks, which need no request: the one
  // that makes it aware of the step.
  void begins(std::size_t rank, model::TaskIndex first);
  // Returns the ranks in the order in which `rank` computes with their shares, which fixes its
  // sums: its own, then the ranks after it, cyclically. If all send in that order, each rank
  // receives from one sender at a time.
  [[nodiscard]] std::vector<std::size_t> order(std::size_t rank) const;
  // Sends `block` of `layer` to the ranks that `wanted` selects.
  void send(model::WeightBlock block, std::int32_t layer, const std::vector<bool>& wanted);
  // Returns the last transfer of rank `of`'s block to `rank`; -1 for its own.
  [[nodiscard]] model::TaskIndex arrival(model::WeightBlock block, std::size_t of,
                                         std::size_t rank) const;
  // Ends the use of all others' blocks at `rank` with task `last`, when its residual stream is
  // ready.
  void used(model::WeightBlock block, std::size_t rank, model::TaskIndex last);
  // Returns the slot of rank `of`'s block (model::Task::weights_slot).
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
