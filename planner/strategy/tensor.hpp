#pragma once

#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// Tensor parallelism of TPI-LLM (Li et al. 2024, Algorithms 1 and 2). Device d holds the query
// heads H_d and the FFN columns C_d of every layer, with p_d |H| = |H_d|. One step:
//   master: embed; send hidden to every worker
//   each layer, on every device:
//     norm; Q, K, V of H_d; attention; output projection of H_d    all-reduce; hidden += sum
//     norm; up and down projection of C_d                          all-reduce; hidden += sum
//   master: final norm, LM head and sampling of each sequence's last row
// The last FFN sum goes to the master only, which has embedding, LM head and logits. If the plan
// splits the head (strategy/common/head.hpp) and all rows are sampled, that sum goes to every
// device with rows of the head. Workers receive embedding rows, from which tokens can be recovered
// (SECURITY.md). A device without heads (or columns) computes nothing in that half but receives its
// sum if it has a part in a later half. Messages a step: (N-1) hidden out, then 2 L star sums of
// (N-1) terms up and (N-1) sums down, less the last N-1 down: 4 L (N-1) in all if every device has
// a part in every half.
[[nodiscard]] Strategy tensor_strategy();

}  // namespace tandem::planner
