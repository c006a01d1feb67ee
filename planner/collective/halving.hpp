#pragma once

// Recursive halving and doubling: log2 N exchanges between pairs, of half the data each time.

#include "planner/collective/tree.hpp"

namespace tandem::planner {

// The largest power of two that is at most `ranks`.
[[nodiscard]] std::int32_t power_of_two(std::int32_t ranks);

// Ranks beyond the largest power of two p are folded in: rank p + i first sends its whole term to
// rank i, and receives the sum from it at the end.
//
// Rank i < p gets the sum of one of p chunks: in step k it exchanges with rank i ^ 2^k the half of
// its columns that the other keeps. Ranks next to one another exchange most.
//   T = log2 p l + (1 - 1 / p) S / B  + [N > p] (l + S / B)      bytes = (p - 1) S + (N - p) S
//   Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005; p divides the columns, full-duplex links;
//   where those are shared this is a lower bound if N > p
// Throws logic_error unless the exchange has p chunks.
void halving_reduce_scatter(Exchange& exchange);
// The reverse: every rank i < p sends its chunks to all. Same time and bytes.
void doubling_all_gather(Exchange& exchange);

// All-reduce: T = 2 log2 p l + 2 (1 - 1 / p) S / B + [N > p] 2 (l + S / B), bytes = 2 (N - 1) S. If
// only the master needs the sum, chunks go to it directly instead of the all-gather.
[[nodiscard]] model::Seconds halving_time(std::int32_t ranks, model::Bytes bytes,
                                          const Uniform& net);

// The same between all ranks, each with a part of its own. Rank i < p also stands for rank p + i,
// which first sends it everything but its own part and receives that part's sum at the end. Pairs p
// / 2 apart exchange first, so that the parts of one message are adjacent, in two runs unless the
// number of ranks is a power of two.
//   T = log2 p l + (1 - 1 / p) S / B      N = p, equal parts      bytes = (N - 1) S
void halving_scatter_parts(Exchange& exchange);
// The reverse: all parts to all that receive. Same time and bytes.
void doubling_gather_parts(Exchange& exchange);
// Time of either half; an upper bound if N > p, x = N - p, as a rank's first run of parts may leave
// before its second has arrived:
//   T = (2 + log2 p) l + (N + sum over b = 1, 2, .. p / 2 of (b + min(x, b))) S / (N B)
[[nodiscard]] model::Seconds halving_half_time(std::int32_t ranks, model::Bytes bytes,
                                               const Uniform& net);

// A sum for rank 0 only: the reduce-scatter, and p chunks to rank 0.
//   T = log2 p l + (1 - 1 / p) S / B + [N > p] (l + S / B) + [N > 1] (l + S / (p B))
//   bytes = (N - 1) S + (1 - 1 / p) S
[[nodiscard]] model::Seconds halving_reduce_time(std::int32_t ranks, model::Bytes bytes,
                                                 const Uniform& net);
// Returns the broadcast's parents by rank: in step k the first 2^k ranks each send to one more
// rank. All other ranks need all data, so halving it would save nothing: it goes in one message.
//   T = D (l + S / B), D the most bits that are set in a rank      bytes = (N - 1) S
[[nodiscard]] Parents doubling_parents(std::int32_t ranks);

[[nodiscard]] Collective halving_collective();

}  // namespace tandem::planner
