#include "planner/collective/hierarchical.hpp"

#include <unordered_map>

namespace tandem::planner {
namespace {

void sum(Exchange& exchange, const Topology& topology) {
  tree_sum(exchange, hierarchical_parents(topology.group));
}

std::int32_t one_chunk(std::int32_t /*ranks*/) { return 1; }

std::int64_t tasks(std::int64_t ranks) { return 3 * (ranks - 1); }

model::Seconds time(const Topology& topology, model::Bytes bytes, const Uniform& net) {
  return tree_time(levels(hierarchical_parents(topology.group)), bytes, net);
}

}  // namespace

Parents hierarchical_parents(const std::vector<std::int32_t>& group) {
  Parents parents(group.size(), -1);
  std::unordered_map<std::int32_t, std::int32_t> leaders;
  for (std::size_t r = 0; r < group.size(); ++r) {
    const auto rank = static_cast<std::int32_t>(r);
    const auto [leader, is_new] = leaders.emplace(group[r], rank);
    if (rank > 0) parents[r] = is_new ? 0 : leader->second;
  }
  return parents;
}

Collective hierarchical_collective() {
  return {.name = "hierarchical",
          .summary = "sums within each group of near devices, among the groups, and back",
          .chunks = one_chunk,
          .sum = sum,
          .tasks = tasks,
          .time = time};
}

}  // namespace tandem::planner
