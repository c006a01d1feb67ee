#pragma once

#include <cstdint>
#include <vector>

#include "planner/lowering.hpp"

namespace tandem::planner {

// A sequence's positions, dealt to devices: who owns a position computes the row that stands there
// (CSPS's decode over a spread cache, "Q moves", for prompts as well). Of a prompt devices have
// what the plan says (Share::part), one range each; positions that follow are all of the device
// with the prompt's last.
struct SpreadPart {
  model::DeviceIndex device = 0;
  model::Range positions{};  // of the last part without an end
  bool operator==(const SpreadPart&) const = default;
};
// The parts in the order of positions, those without any first.
[[nodiscard]] std::vector<SpreadPart> spread_parts(const Plan& plan);

// How a plan without shares deals them. The devices in the order of their parts: that of ranks (of
// the collective that the plan names), but the device with room last, which has the largest memory
// budget, the master among equals.
[[nodiscard]] std::vector<model::DeviceIndex> spread_order(const Plan& plan);
// Whether the prompt has two positions for each device; else all of it is the device's with room.
[[nodiscard]] bool parts_positions(const Plan& plan);
// How many positions of the prompt each device has, by device, in proportion to `weights`: equal
// ones are equal parts, the larger ones first. Memory is not looked at.
[[nodiscard]] std::vector<std::int64_t> positions_in_proportion(const Plan& plan,
                                                                const std::vector<double>& weights);
// The same, such that what a prompt's rows and those who ask for their keys take is as even as can
// be, by the cost model, with a causal mask: the first parts are asked by all that follow. Part i
// of S_i positions, a_i seconds a row besides attention and b_i a row and key, P of the prompt:
//   S_i (a_i + b_i (P - positions before it - S_i / 2)), equal for all i
[[nodiscard]] std::vector<std::int64_t> positions_by_prompt_work(const Plan& plan);

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
// Where keys and values move instead (Plan::moves_cache, the paper's baseline), a new token's owner
// asks each part for those of a layer and gets them: of part j, K key/value heads,
//   4 + |positions of j that the token may see| 2 K d e   bytes of a layer
// It keeps them for as long as it attends them, part by part, and merges the results itself.
// Prompts move queries all the same.
// One sequence at a time, whose prompt has the plan's length; weights do not stream.
[[nodiscard]] Strategy spread_strategy();

}  // namespace tandem::planner
