#pragma once

// Sparse attention (CSPS, 3.2.4) of devices that compute a prompt's rows together, as Galaxy does
// (strategy/row_group.hpp): each attends with its own heads to all rows, all of which it has.

#include <cstdint>
#include <vector>

#include "model/graph/tasks.hpp"
#include "planner/strategy/sparse/sparse_level.hpp"

namespace tandem::planner {

// A place is a rank's rows, S_i, which may be none. One layer, at each device, of its heads alone:
//   nothing dropped, levels disjoint: attention of all rows over all, as without levels
//   else level 1: attention of each S_i over S_i
//     for each level v, nearest first:
//       by key/value head and place the list of n = ceil((1 - p) |S_i|) rows of the highest scores;
//         their queries, keys and values lie together (p = 0: where they are)
//       attention of what each place kept over what those kept whom it asks; merge
//   if the next layer drops: what keys weigh at all levels, second pass over Q K^T
// All of it is the device's own: no message is more, and every row's result is at every device
// that computes its heads.
class RowGroupAttention {
 public:
  // `rows`: of the prompt, by rank, one after another. `graph` and `plan`, which has sparse
  // attention, outlive this.
  RowGroupAttention(model::TaskGraph& graph, const Plan& plan, std::vector<model::Range> rows);

  // What `layer` keeps: all that follows is of that layer.
  void choose(std::int32_t layer);
  // Attention of the heads of `device`, whose queries, keys and values of all rows are there.
  void attend(model::DeviceIndex device, model::Range heads);
  // After that, what keys weigh by these heads, if the next layer drops.
  void weigh(model::DeviceIndex device, model::Range heads);

 private:
  void add(const model::Task& task);
  [[nodiscard]] model::TaskExtent extent(model::DeviceIndex device, model::Range rows,
                                         model::Range columns) const;
  void attend(model::DeviceIndex device, const SparseLevel& level, const KeptPart& part,
              model::Range heads);
  void weigh(model::DeviceIndex device, const SparseLevel& level, const KeptPart& part,
             model::Range heads, std::int32_t first_kv);

  model::TaskGraph* graph_;
  const Plan* plan_;
  std::vector<model::Range> rows_;   // by place
  std::vector<SparseLevel> levels_;  // that have something to attend to, nearest first
  // Of the layer:
  std::int32_t layer_ = -1;
  bool dense_ = true;    // whether all rows attend to all as without levels
  bool scored_ = false;  // whether the next one drops
};

// What a device with `share` declares, of a plan that may have sparse attention, for all steps;
// `streams_head` as for model::share_buffers.
[[nodiscard]] std::vector<model::BufferDeclaration> row_group_buffers(const Plan& plan,
                                                                      const model::Share& share,
                                                                      bool streams_head);

// Throws Error unless each key/value head is one device's, where a layer drops rows: what keys
// weigh is summed over the head's queries, which are then all there.
void check_sparse_heads(const Plan& plan);

}  // namespace tandem::planner
