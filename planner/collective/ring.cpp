#include "planner/collective/ring.hpp"

#include <algorithm>
#include <numeric>

#include "model/base/error.hpp"

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
  return ring_time(topology.ranks(), bytes, net);
}

model::Seconds half_time(const Topology& topology, model::Bytes bytes, const Uniform& net) {
  return ring_half_time(topology.ranks(), bytes, net);
}

}  // namespace

void ring_reduce_scatter(Exchange& exchange) {
  const std::int32_t ranks = exchange.size();
  for (std::int32_t rank = 0; rank < ranks && ranks > 1; ++rank)
    exchange.make(rank, exchange.part(wrapped(rank - 1, ranks)));
  for (std::int32_t step = 0; step + 1 < ranks; ++step) {
    exchange.begin_step();
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      const Range part = exchange.part(wrapped(rank - step - 1, ranks));
      for (std::int32_t i = part.begin; i < part.end; ++i)
        exchange.merge(rank, wrapped(rank + 1, ranks), chunk(i));
    }
    exchange.end_step();
  }
}

void ring_all_gather(Exchange& exchange) {
  const std::int32_t ranks = exchange.size();
  std::vector<std::int32_t> distance(static_cast<std::size_t>(ranks), 0);  // that a part goes
  for (std::int32_t owner = 0; owner < ranks; ++owner) {
    for (std::int32_t way = 1; way < ranks; ++way) {
      if (exchange.receives(wrapped(owner + way, ranks)))
        distance[static_cast<std::size_t>(owner)] = way;
    }
  }
  // In the order of chunks, each is sent on before it is used, and used before the next one is: a
  // device delivers a chunk that it sends on at the place of the message that passes it on.
  const std::int32_t tiles = exchange.part(0).size();
  for (std::int32_t step = 0; step < ranks; ++step) {
    for (std::int32_t tile = 0; tile < tiles; ++tile) {
      for (std::int32_t rank = 0; rank < ranks; ++rank) {
        const std::int32_t owner = wrapped(rank - step, ranks);
        const std::int32_t index = exchange.part(owner).begin + tile;
        if (step < distance[static_cast<std::size_t>(owner)])
          exchange.copy(rank, wrapped(rank + 1, ranks), chunk(index));
      }
      for (std::int32_t rank = 0; rank < ranks; ++rank)
        exchange.use(rank, exchange.part(wrapped(rank - step, ranks)).begin + tile);
    }
  }
}

void ring_broadcast(Exchange& exchange) {
  std::int32_t last = 0;  // rank that receives
  for (std::int32_t rank = 1; rank < exchange.size(); ++rank) {
    if (exchange.receives(rank)) last = rank;
  }
  // In the order in which messages leave: rank r has chunk i after step r + i.
  for (std::int32_t step = 1; step < last + exchange.chunks(); ++step) {
    const std::int32_t latest = std::min(last, step);
    for (std::int32_t rank = std::max(1, step - exchange.chunks() + 1); rank <= latest; ++rank)
      exchange.copy(rank - 1, rank, chunk(step - rank));
  }
}

model::Seconds ring_broadcast_time(std::int32_t ranks, model::Bytes bytes, const Uniform& net) {
  return static_cast<double>(ranks - 1) * (net.latency + (2.0 / ranks) * bytes / net.bandwidth);
}

model::Seconds ring_reduce_time(std::int32_t ranks, model::Bytes bytes, const Uniform& net) {
  if (ranks == 1) return {};
  return static_cast<double>(ranks) * (net.latency + (1.0 / ranks) * bytes / net.bandwidth);
}

model::Seconds ring_half_time(std::int32_t ranks, model::Bytes bytes, const Uniform& net) {
  return static_cast<double>(ranks - 1) * (net.latency + (1.0 / ranks) * bytes / net.bandwidth);
}

model::Seconds ring_time(std::int32_t ranks, model::Bytes bytes, const Uniform& net) {
  return 2.0 * (ranks - 1) * (net.latency + (1.0 / ranks) * bytes / net.bandwidth);
}

Collective ring_collective() {
  return {
      .name = "ring",
      .chunks = chunk_a_rank,
      .sum = sum,
      .reduce_scatter = [](Exchange& e, const Topology& /*topology*/) { ring_reduce_scatter(e); },
      .all_gather = [](Exchange& e, const Topology& /*topology*/) { ring_all_gather(e); },
      .tasks = tasks,
      .time = time,
      .half_time = half_time,
      .half_time_is_exact = [](const Topology& /*topology*/) { return true; },
      .broadcast = [](Exchange& e, const Topology& /*topology*/) { ring_broadcast(e); },
      .reduce_time =
          [](const Topology& topology, model::Bytes bytes, const Uniform& net) {
            return ring_reduce_time(topology.ranks(), bytes, net);
          },
      .broadcast_time =
          [](const Topology& topology, model::Bytes bytes, const Uniform& net) {
            return ring_broadcast_time(topology.ranks(), bytes, net);
          },
      .sum_bytes = two_halves,
      .reduce_bytes =
          [](const Topology& topology, model::Bytes bytes) {
            const double ranks = topology.ranks();
            return (ranks - 1.0) * (1.0 + 1.0 / ranks) * bytes;
          },
      .way =
          [](const Topology& topology, std::int32_t from, std::int32_t to) {
            const std::int32_t ranks = topology.ranks();
            std::vector<std::int32_t> way{from};
            while (way.back() != to) way.push_back(wrapped(way.back() + 1, ranks));
            return way;
          }};
}

}  // namespace tandem::planner
