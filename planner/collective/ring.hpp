#pragma once

// The ring: every rank sends to the next one only, 1/N of the data at a time.

#include "planner/collective/collective.hpp"

namespace tandem::planner {

// Rank i gets the sum of part i of N: in step k = 0 .. N - 2 it sends what it has of part
// i - k - 1 to rank i + 1, which adds it to its own. A part is one chunk, or as many for each rank.
//   T = (N - 1) (l + S / (N B))     bytes = (N - 1) S       equal parts of one chunk
//   Patarasuk & Yuan, JPDC 69(2), 2009
// No two messages share a full-duplex link of a device, so this holds on access links as well.
// Chunks are made in the order in which they leave: that of step k + 1 while those of step k
// travel (Galaxy, section III-D).
// Throws logic_error unless the ranks divide the chunks.
void ring_reduce_scatter(Exchange& exchange);
// Part i of rank i to all that receive: in step k it sends part i - k to rank i + 1. A part goes
// no further than its last receiver. Chunks are used as they come, each passed on on arrival.
//   T = (N - 1) (l + S / (N B))     bytes = (N - 1) S       equal parts of one chunk
void ring_all_gather(Exchange& exchange);
// Either of the two.
[[nodiscard]] model::Seconds ring_half_time(std::int32_t ranks, model::Bytes bytes,
                                            const Uniform& net);

// All-reduce: T = 2 (N - 1) (l + S / (N B)), bytes = 2 (N - 1) S. A sum that the master alone needs
// has its chunks sent to it directly instead of the all-gather.
[[nodiscard]] model::Seconds ring_time(std::int32_t ranks, model::Bytes bytes, const Uniform& net);

// Rank 0's chunks to all that receive, passed on round the ring as they arrive.
//   T = (N - 1) (l + 2 S / (N B))      N chunks: a way's messages follow one another without
//   waiting bytes = (N - 1) S                  for its latency, N - 1 after the first
void ring_broadcast(Exchange& exchange);
[[nodiscard]] model::Seconds ring_broadcast_time(std::int32_t ranks, model::Bytes bytes,
                                                 const Uniform& net);
// A sum that rank 0 alone needs: a reduce-scatter, and its chunks to rank 0.
//   T = N (l + S / (N B))              N > 1                bytes = (N - 1) (1 + 1 / N) S
[[nodiscard]] model::Seconds ring_reduce_time(std::int32_t ranks, model::Bytes bytes,
                                              const Uniform& net);

[[nodiscard]] Collective ring_collective();

}  // namespace tandem::planner
