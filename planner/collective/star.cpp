#include "planner/collective/star.hpp"

#include "planner/collective/tree.hpp"

namespace tandem::planner {
namespace {

Parents parents_of(std::int32_t ranks) { return tree_parents(ranks, 1); }

void sum(Exchange& exchange, const Topology& /*topology*/) {
  tree_sum(exchange, parents_of(exchange.size()));
}

std::int32_t one_chunk(std::int32_t /*ranks*/) { return 1; }

std::int64_t tasks(std::int64_t ranks) { return 3 * (ranks - 1); }

model::Seconds time(const Topology& topology, model::Bytes bytes, const Uniform& net) {
  return topology.group.size() == 1 ? model::Seconds{} : star_time(bytes, net);
}

}  // namespace

model::Seconds star_time(model::Bytes bytes, const Uniform& net) {
  return tree_time(1, bytes, net);
}

model::Seconds star_time_shared(std::int32_t ranks, model::Bytes bytes, const Uniform& net) {
  return 2.0 * (net.latency + (ranks - 1) * bytes / net.bandwidth);
}

Collective star_collective() {
  return {.name = "star",
          .summary = "every worker to the master, and back",
          .chunks = one_chunk,
          .sum = sum,
          .tasks = tasks,
          .time = time};
}

}  // namespace tandem::planner
