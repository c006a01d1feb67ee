#pragma once

// The ring: every rank sends to the next one only, 1/N of the data at a time.

#include "planner/collective/collective.hpp"

namespace tandem::planner {

// Rank i gets the sum of part i of N: in step k = 0 .. N - 2 it sends its partial sum of part i - k
// - 1 to rank i + 1, which adds it to its own. A part is one chunk, or equally many a rank.
//   T = (N - 1) (l + S / (N B))     bytes = (N - 1) S       equal parts of one chunk
//   Patarasuk & Yuan, JPDC 69(2), 2009
// No two messages share a full-duplex link of a device, so this also holds on access links. Chunks
// are made in the order in which they are sent: those of step k + 1 while those of step k travel
// (Galaxy, section III-D). Throws logic_error unless the ranks divide the chunks.
void ring_reduce_scatter(Exchange& exchange);
// Part i of rank i to all that receive: in step k rank i sends part i - k to rank i + 1. A part
// stops at its last receiver. Chunks are used, and passed on, on arrival.
//   T = (N - 1) (l + S / (N B))     bytes = (N - 1) S       equal parts of one chunk
void ring_all_gather(Exchange& exchange);
// Time of either half.
[[nodiscard]] model::Seconds ring_half_time(std::int32_t ranks, model::Bytes bytes,
                                            const Uniform& net);

// All-reduce: T = 2 (N - 1) (l + S / (N B)), bytes = 2 (N - 1) S. If only the master needs the sum,
// chunks go to it directly instead of the all-gather.
[[nodiscard]] model::Seconds ring_time(std::int32_t ranks, model::Bytes bytes, const Uniform& net);

// Rank 0's chunks to all that receive, passed on around the ring on arrival.
//   T = (N - 1) (l + 2 S / (N B))      N chunks: a channel's messages follow one another without
//   bytes = (N - 1) S                  waiting for its latency, N - 1 after the first
void ring_broadcast(Exchange& exchange);
[[nodiscard]] model::Seconds ring_broadcast_time(std::int32_t ranks, model::Bytes bytes,
                                                 const Uniform& net);
// A sum for rank 0 only: a reduce-scatter, then its chunks to rank 0.
//   T = N (l + S / (N B))              N > 1                bytes = (N - 1) (1 + 1 / N) S
[[nodiscard]] model::Seconds ring_reduce_time(std::int32_t ranks, model::Bytes bytes,
                                              const Uniform& net);

[[nodiscard]] Collective ring_collective();

}  // namespace tandem::planner
