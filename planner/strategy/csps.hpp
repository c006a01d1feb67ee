#pragma once

#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// Sequence-parallel prompts without tensor parallelism (CSPS's SP-NTP; the exchange is that of
// DeepSpeed-Ulysses): every device holds all heads and FFN columns of all layers, in memory or
// through a window, the master besides the embedding and the head. Device d computes heads A_d and
// FFN columns B_d where rows are not parted (Share::part), and of a prompt's R rows S_d, in
// proportion to B_d. One step of a prompt:
//   master: embed; send rows S_d of hidden to device d
//   each layer, on every device:
//     norm, Q, K, V of S_d, all heads
//     first all-to-all: Q of S_d, heads A_j, and K, V of their key/value heads, to device j
//     attention of all rows, heads A_d: heads part the causal triangle evenly
//     second all-to-all: what came out for rows S_j to device j
//     output projection, up and down projection of S_d, and the residual adds
//   rows that the result needs: to the master, which samples
// In the last layer only rows that the result needs are attended and go on.
//   bytes of a layer, e an element, K_j key/value heads that the heads A_j read, without the last:
//     e d sum over devices j of (R - S_j) (|A_j| + 2 K_j)   and   e d sum over j of (R - S_j) |A_j|
// back: with equal parts and N <= K in all e R d (2 H + 2 K) (N - 1) / N. Key/value heads that
// several devices read travel to each of them.
//
// Keys and values of heads A_d stay at device d, where the prompt's attention was: new tokens are
// computed as in strategy `tensor`, of the parts A_d and B_d, and nothing migrates. So are steps
// too short to give every device a row. Any number of sequences may be in a step.
[[nodiscard]] Strategy csps_strategy();

}  // namespace tandem::planner
