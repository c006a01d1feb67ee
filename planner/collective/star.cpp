#include "planner/collective/star.hpp"

#include "planner/collective/tree.hpp"

namespace tandem::planner {
namespace {

Parents parents_of(const Topology& topology) { return tree_parents(topology.ranks(), 1); }

}  // namespace

model::Seconds star_time(model::Bytes bytes, const Uniform& net) {
  return tree_time(1, bytes, net);
}

model::Seconds star_time_shared(std::int32_t ranks, model::Bytes bytes, const Uniform& net) {
  return 2.0 * (net.latency + (ranks - 1) * bytes / net.bandwidth);
}

Collective star_collective() { return along_tree("star", parents_of); }

}  // namespace tandem::planner
