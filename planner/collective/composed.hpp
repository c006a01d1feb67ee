#pragma once

// Hierarchical by composition: one collective within each group of near devices, another among the
// groups' leaders.

#include "planner/collective/collective.hpp"

namespace tandem::planner {

// G groups of g ranks each; the first rank of a group is its leader. T_x of a level is the time of
// its collective among its ranks. A level starts at a leader when the level before has ended there.
//
// All-reduce: sums at the leaders, an all-reduce among them, broadcasts.
//   T = T_reduce(g, S) + T_sum(G, S) + T_broadcast(g, S)
//   bytes = the groups' reduce_bytes(g, S) + sum_bytes(G, S) between groups + (N - G) S
// Reduce-scatter: the groups first sum what belongs to other groups at their leaders, which
// exchange it; each leader thus gets the terms for its own group, which then runs a reduce-scatter
// of its part. Upper bound, for equal parts where the parts of a group's ranks are adjacent:
//   T = 2 T_reduce(g, (1 - 1/G) S) + T_half(G, S) + T_half(g, S / G)
// with two reduces because other groups' parts may lie on both sides of a group's own. All-gather:
// the reverse, with T_broadcast for T_reduce.
//   bytes of either = (N - 1) S, of which (G - 1) S between groups; of a reduce-scatter at most
//   reduce_bytes(g, S) - (g - 1) S more in each group
// Broadcast: among the leaders, then within the groups: T_broadcast(G, S) + T_broadcast(g, S),
// bytes = (N - 1) S.
//
// Expects a topology that names both levels. `chunks` is 1.
[[nodiscard]] const Collective& composed_collective();

}  // namespace tandem::planner
