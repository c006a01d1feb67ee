#pragma once

// The placement of the LM head: all of it on the master, or rows on every device.

#include "planner/search/engine.hpp"

namespace tandem::planner {

// The master alone, split with all logits sent, and split with `request.candidates`, as far as
// allowed. Split: shares, sums and windows are those with the head on the master; its rows follow
// the speed of a token's logits (or the given proportions, if the partition has them), in units of
// 64 for large vocabularies, as far as memory allows. Compares predictions of the objective.
// Infeasible if the rows do not fit.
[[nodiscard]] const Axis& head_axis();

}  // namespace tandem::planner
