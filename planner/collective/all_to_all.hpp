#pragma once

// All-to-all: every rank has one chunk for each of the others.

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

}  // namespace tandem::planner
