#pragma once

// The tree: terms are added on the way to the master, the sum goes back the same way.

#include <string>

#include "planner/collective/collective.hpp"

namespace tandem::planner {

// By rank, its parent; -1 for rank 0, whose descendants all are. A parent's rank is smaller.
using Parents = std::vector<std::int32_t>;

// A tree of at most `depth` levels below rank 0, of the least fan-out f that suffices:
// 1 + f + ... + f^depth >= ranks. Subtrees are consecutive ranks, hence near one another, and as
// equal in size as can be.
[[nodiscard]] Parents tree_parents(std::int32_t ranks, std::int32_t depth);
// Levels below rank 0.
[[nodiscard]] std::int32_t levels(const Parents& parents);

// The sum of all terms, in rank 0's `partial`. Every rank adds its children's sums, each complete,
// to its own term, in order of rank.
//   T = D (l + S / B)                nothing shared, D levels, equal links
//   bytes = (N - 1) S
void tree_reduce(Exchange& exchange, const Parents& parents);
// Rank 0's `partial` to those that receive, by way of whoever is between.
//   T = D (l + S / B)    bytes = (N - 1) S    if all receive
void tree_broadcast(Exchange& exchange, const Parents& parents);

// Each rank's part of the sum of all terms to that rank: up the tree go the parts of those that are
// not below, down it of those that are, without their own sum.
//   bytes = (N - 1) S: of each edge, S in all
void tree_reduce_scatter(Exchange& exchange, const Parents& parents);
// Each rank's part to all that receive: up the parts of those below, down those of all others.
//   bytes = (N - 1) S
void tree_all_gather(Exchange& exchange, const Parents& parents);
// Either of the two at most, of equal parts, n(v) the ranks of the subtree of v:
//   T = 2 D l + (max over leaves of sum n(v) + max over leaves of sum (N - n(v))) S / (N B)
// where sums are over the way to the root. That is 2 l + S / B of a star; l + S / (2 B) of two
// ranks, which have one part each to send.
[[nodiscard]] model::Seconds tree_half_time(const Parents& parents, model::Bytes bytes,
                                            const Uniform& net);

// T = 2 D (l + S / B): Appendix A.1 of TPI-LLM, whose t_tree is that of D = 2 (3 data terms instead
// of 4, as its two workers' first message is shorter by one link).
// A parent of f children whose messages share its link waits f S / B instead of S / B.
[[nodiscard]] model::Seconds tree_time(std::int32_t levels, model::Bytes bytes, const Uniform& net);

// A collective that sums along the tree that `parents` makes of a topology, all columns in one
// chunk. Star and hierarchical sums are such, too.
[[nodiscard]] Collective along_tree(std::string name, Parents (*parents)(const Topology&));
[[nodiscard]] Collective tree_collective();

}  // namespace tandem::planner
