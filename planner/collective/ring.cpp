#include "planner/collective/ring.hpp"

#include <numeric>

#include "model/error.hpp"

namespace tandem::planner {
namespace {

using model::Range;

std::int32_t wrapped(std::int32_t rank, std::int32_t ranks) {
  return ((rank % ranks) + ranks) % ranks;
}

Range chunk(std::int32_t index) { return {index, index + 1}; }

void sum(Exchange& exchange, const Topology& /*topology*/) {
  ring_reduce_scatter(exchange);
  if (exchange.master_alone()) {
    std::vector<std::int32_t> owners(static_cast<std::size_t>(exchange.chunks()));
    std::iota(owners.begin(), owners.end(), 0);
    gather_at_master(exchange, owners);
  } else {
    ring_all_gather(exchange);
  }
}

std::int32_t chunk_a_rank(std::int32_t ranks) { return ranks; }

std::int64_t tasks(std::int64_t ranks) { return 3 * ranks * (ranks - 1); }

model::Seconds time(const Topology& topology, model::Bytes bytes, const Uniform& net) {
  return ring_time(static_cast<std::int32_t>(topology.group.size()), bytes, net);
}

}  // namespace

void ring_reduce_scatter(Exchange& exchange) {
  const std::int32_t ranks = exchange.size();
  require(exchange.chunks() == ranks, "ring: as many chunks as ranks");
  for (std::int32_t step = 0; step + 1 < ranks; ++step) {
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      exchange.merge(rank, wrapped(rank + 1, ranks), chunk(wrapped(rank - step - 1, ranks)));
  }
}

void ring_all_gather(Exchange& exchange) {
  const std::int32_t ranks = exchange.size();
  require(exchange.chunks() == ranks, "ring: as many chunks as ranks");
  std::vector<std::int32_t> distance(static_cast<std::size_t>(ranks), 0);  // that a chunk goes
  for (std::int32_t owner = 0; owner < ranks; ++owner) {
    for (std::int32_t way = 1; way < ranks; ++way) {
      if (exchange.receives(wrapped(owner + way, ranks)))
        distance[static_cast<std::size_t>(owner)] = way;
    }
  }
  for (std::int32_t step = 0; step + 1 < ranks; ++step) {
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      const std::int32_t owner = wrapped(rank - step, ranks);
      if (step < distance[static_cast<std::size_t>(owner)])
        exchange.copy(rank, wrapped(rank + 1, ranks), chunk(owner));
    }
  }
}

model::Seconds ring_time(std::int32_t ranks, model::Bytes bytes, const Uniform& net) {
  return 2.0 * (ranks - 1) * (net.latency + (1.0 / ranks) * bytes / net.bandwidth);
}

Collective ring_collective() {
  return {.name = "ring",
          .summary = "reduce-scatter and all-gather round a ring of near neighbours",
          .chunks = chunk_a_rank,
          .sum = sum,
          .tasks = tasks,
          .time = time};
}

}  // namespace tandem::planner
