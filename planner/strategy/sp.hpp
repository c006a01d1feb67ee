#pragma once

#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// Sequence parallelism, the baseline "SP" of Galaxy (section IV-A; Li et al. 2023): every device
// holds all heads and FFN columns of all layers, the master besides the embedding and the head. Of
// a prompt's R rows device d has S_d, equal parts. One step of a prompt:
//   master: embed; send rows S_d of hidden to device d
//   each layer, on every device with rows:
//     norm, Q, K, V of S_d              all-gather of keys and values, into all devices' caches
//     attention of S_d over all positions, output projection, hidden += partial
//     norm, up and down projection of S_d, hidden += partial
//   rows that the result needs: to the master, which samples
// The all-gather is that of the collective that the plan names for prompts.
//
// What follows a sequence's prompt is the master's alone: a sequence's only new row that is sampled
// from (a new token, or the last token of a prompt in chunks, or a prompt of one token) is computed
// there on its cache, as `local` does, and its keys and values go nowhere. So a sequence continues
// with single rows once it has been sampled from. Weights do not stream, and a plan reserves memory
// for one sequence at a time.
//   bytes of a prompt's step, e an element, K key/value heads of d, W rows of the result:
//     e (h (R - S_M) + L (N - 1) R 2 K d + h (W - W_M))
[[nodiscard]] Strategy sp_strategy();

}  // namespace tandem::planner
