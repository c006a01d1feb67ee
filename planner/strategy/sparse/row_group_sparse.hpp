#pragma once

// Sparse attention (CSPS, 3.2.4) of devices that compute a prompt's rows together, as Galaxy does
// (strategy/row_group.hpp): each device has all rows, and attends to them with its own heads.

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
// Each device works alone: there are no further messages, and every row's result is on every device
// that computes its heads.
class RowGroupAttention {
 public:
  // `rows`: of the prompt, by rank, consecutive. `graph` and `plan`, which has sparse attention,
  // outlive this.
  RowGroupAttention(model::TaskGraph& graph, const Plan& plan, std::vector<model::Range> rows);

  // Selects the kept rows of `layer`; later calls are about that layer.
  void choose(std::int32_t layer);
  // Appends attention of the heads of `device`, which has queries, keys and values of all rows.
  void attend(model::DeviceIndex device, model::Range heads);
  // Then appends the scores of keys by these heads, if the next layer drops rows.
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
  std::vector<SparseLevel> levels_;  // with something to attend to, nearest first
  // State of the layer:
  std::int32_t layer_ = -1;
  bool dense_ = true;    // whether all rows attend to all as without levels
  bool scored_ = false;  // whether the next one drops
};

// Returns the declarations of a device with `share` of a plan with or without sparse attention, for
// all steps; `streams_head` as for model::share_buffers.
[[nodiscard]] std::vector<model::BufferDeclaration> row_group_buffers(const Plan& plan,
                                                                      const model::Share& share,
                                                                      bool streams_head);

// Throws Error unless, in layers that drop rows, each key/value head is on one device: a key's
// score sums over the head's queries, which must all be there.
void check_sparse_heads(const Plan& plan);

}  // namespace tandem::planner
