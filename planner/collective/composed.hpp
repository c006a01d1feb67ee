#pragma once

// Hierarchical by composition: any of the other collectives within each group of near devices, any
// other one among the groups' leaders, and the first again within the groups.

#include "planner/collective/collective.hpp"

namespace tandem::planner {

// G groups of g ranks each, the first of each its leader; T_x of a level is that of its collective
// among as many ranks. Every level begins when the one before it has ended at its leader.
//
// All-reduce: sums at the leaders, an all-reduce among them, broadcasts.
//   T = T_reduce(g, S) + T_sum(G, S) + T_broadcast(g, S)
//   bytes = 2 (N - 1) S, of which 2 (G - 1) S between groups. Within a group a ring sends (1 - 1/g)
//   S more, halving (1 - 1/p) S, p the largest power of two up to g: their sums are gathered
// Reduce-scatter: what belongs to other groups is summed at the leaders, whose terms then hold for
// their groups; each leader gets what belongs to its group; reduce-scatters of that. At most, if
// parts are equal and the parts of a group's ranks adjacent,
//   T = 2 T_reduce(g, (1 - 1/G) S) + T_half(G, S) + T_half(g, S / G)
// as what others have may lie on both sides of a group's parts.
// All-gather: the same backwards, with T_broadcast for T_reduce.
//   bytes of either = (N - 1) S, of which (G - 1) S between groups; of a reduce-scatter more as
//   above
// Broadcast: among the leaders, then within the groups: T_broadcast(G, S) + T_broadcast(g, S),
// bytes = (N - 1) S.
//
// Of a topology that names both levels. `chunks` is 1.
[[nodiscard]] const Collective& composed_collective();

}  // namespace tandem::planner
