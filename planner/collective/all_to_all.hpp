#pragma once

// All-to-all: every rank has one chunk for each other rank. Sent directly, or along the routes of a
// collective, which use fewer channels or fewer messages over long links.

#include "planner/collective/collective.hpp"
#include "planner/collective/exchange.hpp"

namespace tandem::planner {

// Sends chunk j of rank i's `partial` to rank j's receive slot i if i < j, else i - 1: N - 1 slots
// a rank. A rank's own chunk stays in place. In step k = 1 .. N - 1 rank i sends to rank i + k, so
// each rank receives from one sender at a time. Returns, by rank, the arrivals by slot; -1 for
// chunks without columns.
//   T = l + S / (N B)             nothing shared: every channel carries one message
//   T = l + (N - 1) S / (N B)     the messages of a rank share its full-duplex link
//   bytes = (N - 1) S             N divides the columns
// Throws logic_error unless the exchange has as many chunks as ranks, and all ranks hold theirs.
std::vector<std::vector<model::TaskIndex>> all_to_all(Exchange& exchange);

// The same along the routes of `collective`, over intermediate ranks, into the same slots. A chunk
// in transit waits in the slot of its source, in the columns or rows of its destination, which no
// other chunk uses. All chunks of one source over one hop of a step form one message per run of
// adjacent chunks. With equal parts of S bytes a rank:
//   ring      T = (N - 1) l + (N - 1) / 2 S / B          bytes = N (N - 1) / 2 S
//   star      T = 2 l + (2 N - 3) / N S / B              bytes = 2 (N - 1)^2 / N S        N > 2
//   halving   T = log2 N (l + S / (2 B))                 bytes = N / 2 log2 N S           N = 2^m
// Compositions route within a group by the inner collective; between groups to the leader by the
// inner one, among leaders by the outer one, and on by the inner one.
std::vector<std::vector<model::TaskIndex>> all_to_all(Exchange& exchange,
                                                      const Collective& collective,
                                                      const Topology& topology);
// Upper bound on the time for equal parts of `bytes` in all a rank: every step takes as long as its
// busiest pair. Real steps overlap where a message arrives before the others of its step.
[[nodiscard]] model::Seconds all_to_all_time(const Collective& collective, const Topology& topology,
                                             model::Bytes bytes, const Uniform& net);
// Returns the bytes of all messages.
[[nodiscard]] model::Bytes all_to_all_bytes(const Collective& collective, const Topology& topology,
                                            model::Bytes bytes);

}  // namespace tandem::planner
