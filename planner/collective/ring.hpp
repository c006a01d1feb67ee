#pragma once

// The ring: every rank sends to the next one only, 1/N of the data at a time.

#include "planner/collective/collective.hpp"

namespace tandem::planner {

// Rank i gets the sum of chunk i of N: in step k = 0 .. N - 2 it sends what it has of chunk
// i - k - 1 to rank i + 1, which adds it to its own.
//   T = (N - 1) (l + S / (N B))     bytes = (N - 1) S       N divides the columns
//   Patarasuk & Yuan, JPDC 69(2), 2009
// No two messages share a full-duplex link of a device, so this holds on access links as well.
// Throws logic_error unless the exchange has as many chunks as ranks.
void ring_reduce_scatter(Exchange& exchange);
// Chunk i of rank i to all that receive: in step k it sends chunk i - k to rank i + 1. A chunk goes
// no further than its last receiver.
//   T = (N - 1) (l + S / (N B))     bytes = (N - 1) S
void ring_all_gather(Exchange& exchange);

// All-reduce: T = 2 (N - 1) (l + S / (N B)), bytes = 2 (N - 1) S. A sum that the master alone needs
// has its chunks sent to it directly instead of the all-gather.
[[nodiscard]] model::Seconds ring_time(std::int32_t ranks, model::Bytes bytes, const Uniform& net);

[[nodiscard]] Collective ring_collective();

}  // namespace tandem::planner
