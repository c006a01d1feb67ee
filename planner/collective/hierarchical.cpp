#include "planner/collective/hierarchical.hpp"

#include <unordered_map>

namespace tandem::planner {
namespace {

Parents parents_of(const Topology& topology) { return hierarchical_parents(topology.group); }

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

Collective hierarchical_collective() { return along_tree(std::string(kHierarchical), parents_of); }

}  // namespace tandem::planner
