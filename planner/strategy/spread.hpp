#pragma once

#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// Every device holds all weights of all layers, the master besides the embedding and the head, and
// of a sequence's keys and values those of its own positions, for good, as the plan deals them
// (strategy/common/positions.hpp). One step, a prompt or a new token:
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
// Where keys and values move instead (DecodeMoves::keys_each_step, the paper's baseline), a new
// token's owner asks each part for those of a layer and gets them: of part j, K key/value heads,
//   4 + |positions of j that the token may see| 2 K d e   bytes of a layer
// It keeps them for as long as it attends them, part by part, and merges the results itself.
// Prompts move queries all the same. Where they move once (DecodeMoves::keys_once), the master has
// the prompt's last part, and in the step of the prompt, behind all else, what others keep comes to
// it (migrate_cache); new tokens are then its own, as in strategy `local`.
// Where devices have columns of the FFN of new tokens (planner/search/token_ffn.hpp), a token's
// owner sends them the residual stream after attention and gets the sum of what they compute,
// instead of computing the FFN alone: with M of them beside it, M (h e + h e') bytes a layer, e' of
// a sum. One sequence at a time, whose prompt has the plan's length; weights do not stream.
[[nodiscard]] Strategy spread_strategy();

}  // namespace tandem::planner
