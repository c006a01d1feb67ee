#pragma once

#include <vector>

#include "planner/lowering.hpp"

namespace tandem::planner {

// A sequence's positions, dealt to devices: who owns a position computes the row that stands there
// (CSPS's decode over a spread cache, "Q moves", for prompts as well). This is the one place that
// says who owns which.
//
// Of a prompt of P positions each device has equal parts, one after another: in the order of ranks
// (of the collective that the plan names), but the device with room last. Positions that follow are
// all its: the device with room, which has the largest memory budget, the master among equals.
struct SpreadPart {
  model::DeviceIndex device = 0;
  model::Range positions{};  // of the last part without an end
  bool operator==(const SpreadPart&) const = default;
};
// The parts in the order of positions. A prompt of fewer than two positions a device is not parted:
// all is with the device with room, and the others' parts are empty.
[[nodiscard]] std::vector<SpreadPart> spread_parts(const Plan& plan);

// Every device holds all weights of all layers, the master besides the embedding and the head, and
// of a sequence's keys and values those of its own positions, for good. One step, a prompt or a new
// token:
//   master: embed; send rows of hidden to their owners
//   each layer, each owner i of rows S_i:
//     norm, Q, K, V of S_i; K and V stay
//     Q of S_i to every device j with keys that they may see
//     each j: attention of S_i over its keys, and result and softmax back to i, who merges
//     output projection, residual, FFN of S_i
//   the row that the result needs: to the master, which samples
// With a causal mask rows see only parts before their own, with a window only those near enough.
// In the last layer only rows go on that the result needs.
//   bytes of a layer and pair (i, j), e an element, H heads of d:
//     |S_i| (2 H d e + 8 H)
//   of a new token, N parts: (N - 1) of these with |S_i| = 1, and e h to the owner and back, unless
//   it is the master
// One sequence at a time, whose prompt has the plan's length; weights do not stream.
[[nodiscard]] Strategy spread_strategy();

}  // namespace tandem::planner
