#pragma once

// The tree: terms are added on the way to the master; the sum returns along the same edges.

#include <string>

#include "planner/collective/collective.hpp"

namespace tandem::planner {

// The parent of each rank; -1 for rank 0, the root. A parent's rank is smaller than its child's.
using Parents = std::vector<std::int32_t>;

// Returns a tree of at most `depth` levels below rank 0 with the least sufficient fan-out f: 1 + f
// + ... + f^depth >= ranks. Subtrees are consecutive ranks, hence near one another, of nearly equal
// size.
[[nodiscard]] Parents tree_parents(std::int32_t ranks, std::int32_t depth);
// Returns the number of levels below rank 0.
[[nodiscard]] std::int32_t levels(const Parents& parents);

// Leaves the sum of all terms in rank 0's `partial`. Every rank adds its children's complete sums
// to its own term, in order of rank.
//   T = D (l + S / B)                nothing shared, D levels, equal links
//   bytes = (N - 1) S
void tree_reduce(Exchange& exchange, const Parents& parents);
// Rank 0's `partial` to all that receive, along the tree.
//   T = D (l + S / B)    bytes = (N - 1) S    if all receive
void tree_broadcast(Exchange& exchange, const Parents& parents);

// Each rank's part of the sum to that rank. Up an edge go the parts of ranks outside the subtree,
// down it those of ranks inside, without the terms from below.
//   bytes = (N - 1) S: S an edge
void tree_reduce_scatter(Exchange& exchange, const Parents& parents);
// Each rank's part to all that receive: up an edge those of the subtree, down it all others.
//   bytes = (N - 1) S
void tree_all_gather(Exchange& exchange, const Parents& parents);
// Upper bound on either half for equal parts, exact for one level; n(v) is the number of ranks in
// the subtree of v:
//   T = 2 D l + (max over leaves of sum n(v) + max over leaves of sum (N - n(v))) S / (N B)
// with sums over the path to the root. For a star this is 2 l + S / B; for two ranks, which send
// one part each, l + S / (2 B).
[[nodiscard]] model::Seconds tree_half_time(const Parents& parents, model::Bytes bytes,
                                            const Uniform& net);

// T = 2 D (l + S / B): Appendix A.1 of TPI-LLM, whose t_tree is that of D = 2 (3 data terms instead
// of 4, as its two workers' first message is shorter by one link).
// A parent of f children whose messages share its link waits f S / B instead of S / B.
[[nodiscard]] model::Seconds tree_time(std::int32_t levels, model::Bytes bytes, const Uniform& net);

// Makes a collective that sums along the tree `parents(topology)`, all columns in one chunk. Star
// and hierarchical sums are instances.
[[nodiscard]] Collective along_tree(std::string name, Parents (*parents)(const Topology&));
[[nodiscard]] Collective tree_collective();

}  // namespace tandem::planner
