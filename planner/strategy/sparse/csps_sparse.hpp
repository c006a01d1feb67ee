#pragma once

#include <vector>

#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// Communication-efficient sparse attention (CSPS, 3.2.4) of strategy csps, for plans with
// SparseAttention. A prompt's rows lie in the order of places, S_i at place i, in proportion to FFN
// columns as without it; the master's are the last. The master alone computes prompts with too few
// rows to give each device one.
//
// Levels are disjoint: at level v > 1 a row attends to the rows before its group of level v - 1
// that are in its group of level v, so that every key is attended to once, and nothing dropped
// is dense attention. Of the group's devices j each attends heads A_j, in proportion to the heads
// it computes. One layer, for each device i:
//   norm, Q, K, V of S_i, all heads; K and V stay
//   for each level v that has rows beside its own, nearest first:
//     by key/value head the list of n = ceil((1 - p) |S_i|) rows of the highest scores (p = 0: all)
//     to each j of the group: list, Q of these rows if rows come before, K and V if rows follow
//   level 1: attention of S_i over S_i, all heads
//   level v: j attends, heads A_j, for what each i kept; result and softmax back to i, who merges
//   output projection, FFN
//   if the next layer drops: softmax over all levels of what was kept to each j; j sums up what
//     keys weigh, second pass over Q K^T; scores to the keys' owners, who add them up
// The last layer goes on with rows that the result needs. With M tiles of a level each Q, and with
// it its attention, result and softmax, is M pieces of about n / M rows: list, first piece, K and
// V, other pieces travel in that order, and results are merged when all levels have been attended.
//   bytes of level v from i to another j, e an element, A = |A_j|, K the key/value heads that they
//   read:
//     4 n K                   the list, unless p = 0
//     e n A d                 queries, if rows come before
//     2 e n K d               keys and values, if rows follow
//     back, e n A d + 8 n A   results and softmax, if rows come before
//     8 n A and back 4 n K    softmax, if rows come before, and scores, if rows follow; where the
//                             next layer drops
// A row that two levels send to the same device travels twice.
//
// The master computes new tokens and caches their keys and values: its query goes to every device
// for that device's part of the prompt, without dropping, as in strategy `spread`.
[[nodiscard]] model::TaskGraph lower_sparse(const Plan& plan, const model::Batch& batch);

// Returns the buffers of a device with `share`, for all steps; `streams_head` as for
// model::share_buffers.
[[nodiscard]] std::vector<model::BufferDeclaration> sparse_buffers(const Plan& plan,
                                                                   const model::Share& share,
                                                                   bool streams_head);

// Throws Error for lengths that a plan with sparse attention does not support: new tokens query
// parts of the plan's own prompt length.
void check_sparse_lengths(const Plan& plan, const Workload& workload);

}  // namespace tandem::planner
