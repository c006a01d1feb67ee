#pragma once

// All-to-all: every rank has one chunk for each of the others. Directly, or by the ways of a
// collective, which need few channels, or few messages over long ones.

#include "planner/collective/collective.hpp"
#include "planner/collective/exchange.hpp"

namespace tandem::planner {

// Chunk j of rank i's `partial` to rank j's receive slot i if i < j, else i - 1: N - 1 slots a
// rank. Its own chunk stays where it is. In step k = 1 .. N - 1 rank i sends to rank i + k, so that
// at any time every rank is sent to once. Returns, by rank, the arrivals by slot; -1 for chunks
// without columns.
//   T = l + S / (N B)             nothing shared: every channel carries one message
//   T = l + (N - 1) S / (N B)     the messages of a rank share its full-duplex link
//   bytes = (N - 1) S             N divides the columns
// Throws logic_error unless the exchange has as many chunks as ranks, and all ranks hold theirs.
std::vector<std::vector<model::TaskIndex>> all_to_all(Exchange& exchange);

// The same by `collective`'s ways, of several ranks on the way to others: to the same slots. What a
// rank passes on waits in the slot of its source, in the columns or rows of its destination, which
// are nobody else's. A message is all that one source sends over one hop of a step, in as few
// messages as there are runs of adjacent chunks. Equal parts of S bytes a rank, as counted below:
//   ring      T = (N - 1) l + (N - 1) / 2 S / B          bytes = N (N - 1) / 2 S
//   star      T = 2 l + (2 N - 3) / N S / B              bytes = 2 (N - 1)^2 / N S        N > 2
//   halving   T = log2 N (l + S / (2 B))                 bytes = N / 2 log2 N S           N = 2^m
// Compositions: within the group if both are of one; else to the leader by the inner ways, among
// leaders by the outer ones, and on by the inner ones.
std::vector<std::vector<model::TaskIndex>> all_to_all(Exchange& exchange,
                                                      const Collective& collective,
                                                      const Topology& topology);
// At most, of equal parts that make up `bytes` a rank: every step as long as its busiest pair.
// Steps overlap where a message is there before the others of its step.
[[nodiscard]] model::Seconds all_to_all_time(const Collective& collective, const Topology& topology,
                                             model::Bytes bytes, const Uniform& net);
// All that is sent.
[[nodiscard]] model::Bytes all_to_all_bytes(const Collective& collective, const Topology& topology,
                                            model::Bytes bytes);

}  // namespace tandem::planner
