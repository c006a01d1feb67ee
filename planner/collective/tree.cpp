#include "planner/collective/tree.hpp"

#include <algorithm>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::planner {
namespace {

// Nodes of a full tree, or `enough` if there are more.
std::int64_t capacity(std::int64_t fan_out, std::int32_t depth, std::int64_t enough) {
  std::int64_t nodes = 1;
  for (std::int32_t level = 0; level < depth && nodes < enough; ++level)
    nodes = std::min(enough, 1 + fan_out * nodes);
  return nodes;
}

// Ranks [first, last) form a subtree whose root is `first`.
void divide(Parents& parents, std::int32_t first, std::int32_t last, std::int32_t fan_out) {
  const std::int32_t rest = last - first - 1;
  const std::int32_t subtrees = std::min(fan_out, rest);
  std::int32_t at = first + 1;
  for (std::int32_t i = 0; i < subtrees; ++i) {
    const std::int32_t size = rest / subtrees + (i < rest % subtrees ? 1 : 0);
    parents[static_cast<std::size_t>(at)] = first;
    divide(parents, at, at + size, fan_out);
    at += size;
  }
}

std::int32_t parent_of(const Parents& parents, std::int32_t rank) {
  return parents[static_cast<std::size_t>(rank)];
}

// By rank: its children, those of its subtree, itself included, and all others; each ascending.
struct Families {
  std::vector<std::vector<std::int32_t>> children;
  std::vector<std::vector<std::int32_t>> below;
  std::vector<std::vector<std::int32_t>> outside;
};

Families families_of(const Parents& parents) {
  const auto ranks = static_cast<std::int32_t>(parents.size());
  Families families;
  families.children.resize(parents.size());
  families.below.resize(parents.size());
  families.outside.resize(parents.size());
  for (std::int32_t rank = ranks - 1; rank >= 0; --rank) {
    std::vector<std::int32_t>& below = families.below[static_cast<std::size_t>(rank)];
    below.push_back(rank);
    std::ranges::sort(below);
    for (std::int32_t other = 0; other < ranks; ++other) {
      if (!std::ranges::binary_search(below, other))
        families.outside[static_cast<std::size_t>(rank)].push_back(other);
    }
    if (rank == 0) break;
    const auto parent = static_cast<std::size_t>(parent_of(parents, rank));
    families.below[parent].insert(families.below[parent].end(), below.begin(), below.end());
  }
  for (std::int32_t rank = 1; rank < ranks; ++rank)
    families.children[static_cast<std::size_t>(parent_of(parents, rank))].push_back(rank);
  return families;
}

Parents parents_of(const Topology& topology) {
  return tree_parents(topology.ranks(), topology.depth);
}

// Up to their common ancestor, and down. A parent's rank is smaller.
std::vector<std::int32_t> tree_way(const Parents& parents, std::int32_t from, std::int32_t to) {
  std::vector<std::int32_t> up{from};
  std::vector<std::int32_t> down{to};
  while (up.back() != down.back()) {
    std::vector<std::int32_t>& lower = up.back() > down.back() ? up : down;
    lower.push_back(parent_of(parents, lower.back()));
  }
  up.insert(up.end(), down.rbegin() + 1, down.rend());
  return up;
}

}  // namespace

Parents tree_parents(std::int32_t ranks, std::int32_t depth) {
  require(ranks >= 1 && depth >= 1, "tree: at least one rank and one level");
  std::int32_t fan_out = 1;
  while (capacity(fan_out, depth, ranks) < ranks) ++fan_out;
  Parents parents(static_cast<std::size_t>(ranks), -1);
  // A chain's depth equals its length: no recursion.
  if (fan_out == 1) {
    for (std::int32_t rank = 1; rank < ranks; ++rank)
      parents[static_cast<std::size_t>(rank)] = rank - 1;
    return parents;
  }
  divide(parents, 0, ranks, fan_out);
  return parents;
}

std::int32_t levels(const Parents& parents) {
  std::vector<std::int32_t> depth(parents.size(), 0);
  std::int32_t deepest = 0;
  for (std::size_t rank = 1; rank < parents.size(); ++rank) {
    depth[rank] = depth[static_cast<std::size_t>(parents[rank])] + 1;
    deepest = std::max(deepest, depth[rank]);
  }
  return deepest;
}

void tree_reduce(Exchange& exchange, const Parents& parents) {
  // Subtrees from the last, so that each is complete before its parent uses it; the children of one
  // parent in order of rank.
  std::vector<std::vector<std::int32_t>> children(parents.size());
  for (std::int32_t rank = 1; rank < exchange.size(); ++rank)
    children[static_cast<std::size_t>(parent_of(parents, rank))].push_back(rank);
  for (std::int32_t rank = exchange.size() - 1; rank >= 0; --rank) {
    for (const std::int32_t child : children[static_cast<std::size_t>(rank)])
      exchange.merge(child, rank, exchange.all());
  }
}

void tree_broadcast(Exchange& exchange, const Parents& parents) {
  std::vector<bool> needs(parents.size());
  for (std::int32_t rank = exchange.size() - 1; rank > 0; --rank) {
    const auto r = static_cast<std::size_t>(rank);
    needs[r] = needs[r] || exchange.receives(rank);
    if (needs[r]) needs[static_cast<std::size_t>(parents[r])] = true;
  }
  for (std::int32_t rank = 1; rank < exchange.size(); ++rank) {
    if (needs[static_cast<std::size_t>(rank)])
      exchange.copy(parent_of(parents, rank), rank, exchange.all());
  }
}

void tree_reduce_scatter(Exchange& exchange, const Parents& parents) {
  const Families families = families_of(parents);
  // Children in order of rank, as in a sum.
  for (std::int32_t rank = exchange.size() - 1; rank >= 0; --rank) {
    for (const std::int32_t child : families.children[static_cast<std::size_t>(rank)])
      exchange.merge_parts(child, rank, families.outside[static_cast<std::size_t>(child)]);
  }
  for (std::int32_t rank = 1; rank < exchange.size(); ++rank)
    exchange.merge_parts(parent_of(parents, rank), rank,
                         families.below[static_cast<std::size_t>(rank)]);
}

void tree_all_gather(Exchange& exchange, const Parents& parents) {
  const Families families = families_of(parents);
  const auto wanted = [&](const std::vector<std::int32_t>& by) {
    return std::ranges::any_of(by, [&](std::int32_t rank) { return exchange.receives(rank); });
  };
  for (std::int32_t rank = exchange.size() - 1; rank > 0; --rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (wanted(families.outside[r]))
      exchange.copy_parts(rank, parent_of(parents, rank), families.below[r]);
  }
  for (std::int32_t rank = 1; rank < exchange.size(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (wanted(families.below[r]))
      exchange.copy_parts(parent_of(parents, rank), rank, families.outside[r]);
  }
}

model::Seconds tree_half_time(const Parents& parents, model::Bytes bytes, const Uniform& net) {
  const Families families = families_of(parents);
  const auto ranks = static_cast<double>(parents.size());
  if (parents.size() == 2) return net.latency + 0.5 * bytes / net.bandwidth;
  std::vector<double> up(parents.size(), 0.0);
  std::vector<double> down(parents.size(), 0.0);
  for (std::size_t rank = 1; rank < parents.size(); ++rank) {
    const auto parent = static_cast<std::size_t>(parents[rank]);
    const auto below = static_cast<double>(families.below[rank].size());
    up[rank] = up[parent] + below;
    down[rank] = down[parent] + ranks - below;
  }
  const double parts = *std::ranges::max_element(up) + *std::ranges::max_element(down);
  return 2.0 * levels(parents) * net.latency + parts / ranks * bytes / net.bandwidth;
}

model::Seconds tree_time(std::int32_t levels, model::Bytes bytes, const Uniform& net) {
  return 2.0 * levels * (net.latency + bytes / net.bandwidth);
}

Collective along_tree(std::string name, Parents (*parents)(const Topology&)) {
  return {.name = std::move(name),
          .chunks = [](std::int32_t /*ranks*/) { return 1; },
          .sum =
              [parents](Exchange& exchange, const Topology& topology) {
                const Parents tree = parents(topology);
                tree_reduce(exchange, tree);
                tree_broadcast(exchange, tree);
              },
          .reduce_scatter =
              [parents](Exchange& exchange, const Topology& topology) {
                tree_reduce_scatter(exchange, parents(topology));
              },
          .all_gather =
              [parents](Exchange& exchange, const Topology& topology) {
                tree_all_gather(exchange, parents(topology));
              },
          .tasks = [](std::int64_t ranks) { return 3 * (ranks - 1); },
          .time =
              [parents](const Topology& topology, model::Bytes bytes, const Uniform& net) {
                return tree_time(levels(parents(topology)), bytes, net);
              },
          .half_time =
              [parents](const Topology& topology, model::Bytes bytes, const Uniform& net) {
                return tree_half_time(parents(topology), bytes, net);
              },
          .half_time_is_exact =
              [parents](const Topology& topology) { return levels(parents(topology)) < 2; },
          .broadcast =
              [parents](Exchange& exchange, const Topology& topology) {
                tree_broadcast(exchange, parents(topology));
              },
          .reduce_time =
              [parents](const Topology& topology, model::Bytes bytes, const Uniform& net) {
                return 0.5 * tree_time(levels(parents(topology)), bytes, net);
              },
          .broadcast_time =
              [parents](const Topology& topology, model::Bytes bytes, const Uniform& net) {
                return 0.5 * tree_time(levels(parents(topology)), bytes, net);
              },
          .sum_bytes = two_halves,
          .reduce_bytes = [](const Topology& topology,
                             model::Bytes bytes) { return 0.5 * two_halves(topology, bytes); },
          .way = [parents](const Topology& topology, std::int32_t from,
                           std::int32_t to) { return tree_way(parents(topology), from, to); }};
}

Collective tree_collective() {
  Collective made = along_tree("tree", parents_of);
  made.has_depth = true;
  return made;
}

}  // namespace tandem::planner
