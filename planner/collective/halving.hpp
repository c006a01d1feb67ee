#pragma once

// Recursive halving and doubling: log2 N exchanges between pairs, of half the data each time.

#include "planner/collective/tree.hpp"

namespace tandem::planner {

// The largest power of two that is at most `ranks`.
[[nodiscard]] std::int32_t power_of_two(std::int32_t ranks);

// Ranks that are beyond the largest power of two p fold: rank p + i sends its whole term to rank i,
// and gets the sum from it at the end.
//
// Rank i < p gets the sum of one chunk of p: in step k it exchanges with rank i ^ 2^k the half of
// its columns that the other keeps. Neighbours in rank exchange most.
//   T = log2 p l + (1 - 1 / p) S / B  + [N > p] (l + S / B)      bytes = (p - 1) S + (N - p) S
//   Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005; p divides the columns, full-duplex links;
//   where those are shared this is a lower bound if N > p
// Throws logic_error unless the exchange has p chunks.
void halving_reduce_scatter(Exchange& exchange);
// The way back: what each rank i < p holds to all. The same time and bytes.
void doubling_all_gather(Exchange& exchange);

// All-reduce: T = 2 log2 p l + 2 (1 - 1 / p) S / B + [N > p] 2 (l + S / B), bytes = 2 (N - 1) S. A
// sum that the master alone needs has its chunks sent to it directly instead of the all-gather.
[[nodiscard]] model::Seconds halving_time(std::int32_t ranks, model::Bytes bytes,
                                          const Uniform& net);

// The same between all ranks, each of which has a part of its own: rank i < p stands for rank p + i
// as well, which first sends it all but its own part, and gets the sum of that in the end. Pairs
// that are p / 2 apart exchange first, so that parts of one message are adjacent, in two runs where
// ranks are no power of two.
//   T = log2 p l + (1 - 1 / p) S / B      N = p, equal parts      bytes = (N - 1) S
void halving_scatter_parts(Exchange& exchange);
// The way back: all parts to all that receive, at the same time and bytes.
void doubling_gather_parts(Exchange& exchange);
// Either of the two; of N > p, x = N - p extra ranks, at most, as a rank's first run of parts may
// leave before it has the second:
//   T = (2 + log2 p) l + (N + sum over b = 1, 2, .. p / 2 of (b + min(x, b))) S / (N B)
[[nodiscard]] model::Seconds halving_half_time(std::int32_t ranks, model::Bytes bytes,
                                               const Uniform& net);

// A sum that rank 0 alone needs: the reduce-scatter, and p chunks to rank 0.
//   T = log2 p l + (1 - 1 / p) S / B + [N > p] (l + S / B) + [N > 1] (l + S / (p B))
//   bytes = (N - 1) S + (1 - 1 / p) S
[[nodiscard]] model::Seconds halving_reduce_time(std::int32_t ranks, model::Bytes bytes,
                                                 const Uniform& net);
// By rank, whom it gets a broadcast from: in step k the first 2^k ranks each send to one more.
// Halving what all of the others need saves nothing: all of it goes in one message.
//   T = D (l + S / B), D the most bits that are set in a rank      bytes = (N - 1) S
[[nodiscard]] Parents doubling_parents(std::int32_t ranks);

[[nodiscard]] Collective halving_collective();

}  // namespace tandem::planner
