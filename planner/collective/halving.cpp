#include "planner/collective/halving.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::planner {
namespace {

using model::Range;

// Returns the chunks that rank `rank` keeps after the exchanges with the bits below `bit`.
Range kept(std::int32_t rank, std::int32_t bit, std::int32_t chunks) {
  Range range{0, chunks};
  for (std::int32_t b = 1; b < bit; b <<= 1) {
    const std::int32_t middle = range.begin + range.size() / 2;
    range = (rank & b) == 0 ? Range{range.begin, middle} : Range{middle, range.end};
  }
  return range;
}

void sum(Exchange& exchange, const Topology& /*topology*/) {
  halving_reduce_scatter(exchange);
  if (exchange.master_alone()) {
    std::vector<std::int32_t> owners(static_cast<std::size_t>(exchange.chunks()));
    for (std::int32_t rank = 0; rank < exchange.chunks(); ++rank)
      owners[static_cast<std::size_t>(kept(rank, exchange.chunks(), exchange.chunks()).begin)] =
          rank;
    gather_at_master(exchange, owners);
  } else {
    doubling_all_gather(exchange);
  }
}

std::int64_t tasks(std::int64_t ranks) {
  std::int64_t steps = 2;  // folding
  for (std::int64_t p = 1; p < ranks; p *= 2) ++steps;
  return 3 * ranks * steps;
}

model::Seconds time(const Topology& topology, model::Bytes bytes, const Uniform& net) {
  return halving_time(topology.ranks(), bytes, net);
}

}  // namespace

std::int32_t power_of_two(std::int32_t ranks) {
  return static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(ranks)));
}

void halving_reduce_scatter(Exchange& exchange) {
  const std::int32_t p = power_of_two(exchange.size());
  require(exchange.chunks() == p, "halving: as many chunks as the largest power of two of ranks");
  for (std::int32_t extra = p; extra < exchange.size(); ++extra)
    exchange.merge(extra, extra - p, exchange.all());
  for (std::int32_t bit = 1; bit < p; bit <<= 1) {
    exchange.begin_step();
    for (std::int32_t rank = 0; rank < p; ++rank)
      exchange.merge(rank, rank ^ bit, kept(rank ^ bit, bit << 1, p));
    exchange.end_step();
  }
}

void doubling_all_gather(Exchange& exchange) {
  const std::int32_t p = power_of_two(exchange.size());
  require(exchange.chunks() == p, "halving: as many chunks as the largest power of two of ranks");
  for (std::int32_t bit = p >> 1; bit > 0; bit >>= 1) {
    for (std::int32_t rank = 0; rank < p; ++rank)
      exchange.copy(rank, rank ^ bit, kept(rank, bit << 1, p));
  }
  for (std::int32_t extra = p; extra < exchange.size(); ++extra) {
    if (exchange.receives(extra)) exchange.copy(extra - p, extra, exchange.all());
  }
}

model::Seconds halving_time(std::int32_t ranks, model::Bytes bytes, const Uniform& net) {
  const std::int32_t p = power_of_two(ranks);
  const auto steps = static_cast<double>(std::countr_zero(static_cast<std::uint32_t>(p)));
  const model::Seconds whole = bytes / net.bandwidth;
  model::Seconds time = 2.0 * (steps * net.latency + (1.0 - 1.0 / p) * whole);
  if (ranks > p) time = time + 2.0 * (net.latency + whole);
  return time;
}

namespace {

// Returns, by rank below p and for `bit`, a power of two, the ranks that agree with it in the bits
// from `bit` up, and the extra ranks that they stand for. Ascending.
std::vector<std::int32_t> agreeing(std::int32_t rank, std::int32_t bit, std::int32_t ranks) {
  const std::int32_t p = power_of_two(ranks);
  const std::int32_t first = rank / bit * bit;
  std::vector<std::int32_t> found;
  for (std::int32_t q = first; q < first + bit; ++q) found.push_back(q);
  for (std::int32_t q = first; q < first + bit; ++q) {
    if (p + q < ranks) found.push_back(p + q);
  }
  return found;
}

std::vector<std::int32_t> all_but(std::int32_t rank, std::int32_t ranks) {
  std::vector<std::int32_t> found;
  for (std::int32_t q = 0; q < ranks; ++q) {
    if (q != rank) found.push_back(q);
  }
  return found;
}

}  // namespace

void halving_scatter_parts(Exchange& exchange) {
  const std::int32_t ranks = exchange.size();
  const std::int32_t p = power_of_two(ranks);
  for (std::int32_t extra = p; extra < ranks; ++extra)
    exchange.merge_parts(extra, extra - p, all_but(extra, ranks));
  for (std::int32_t bit = p >> 1; bit > 0; bit >>= 1) {
    exchange.begin_step();
    for (std::int32_t rank = 0; rank < p; ++rank)
      exchange.merge_parts(rank, rank ^ bit, agreeing(rank ^ bit, bit, ranks));
    exchange.end_step();
  }
  for (std::int32_t extra = p; extra < ranks; ++extra)
    exchange.merge_parts(extra - p, extra, std::vector<std::int32_t>{extra});
}

void doubling_gather_parts(Exchange& exchange) {
  const std::int32_t ranks = exchange.size();
  const std::int32_t p = power_of_two(ranks);
  for (std::int32_t extra = p; extra < ranks; ++extra)
    exchange.copy_parts(extra, extra - p, std::vector<std::int32_t>{extra});
  for (std::int32_t bit = 1; bit < p; bit <<= 1) {
    for (std::int32_t rank = 0; rank < p; ++rank)
      exchange.copy_parts(rank, rank ^ bit, agreeing(rank, bit, ranks));
  }
  for (std::int32_t extra = p; extra < ranks; ++extra) {
    if (exchange.receives(extra)) exchange.copy_parts(extra - p, extra, all_but(extra, ranks));
  }
}

model::Seconds halving_reduce_time(std::int32_t ranks, model::Bytes bytes, const Uniform& net) {
  if (ranks == 1) return {};
  const model::Seconds chunk = net.latency + (1.0 / power_of_two(ranks)) * bytes / net.bandwidth;
  return 0.5 * halving_time(ranks, bytes, net) + chunk;
}

// Bit by bit, through the rank that stands for an extra rank.
std::vector<std::int32_t> halving_way(std::int32_t ranks, std::int32_t from, std::int32_t to) {
  const std::int32_t p = power_of_two(ranks);
  const auto stands_for = [p](std::int32_t rank) { return rank < p ? rank : rank - p; };
  const std::int32_t target = stands_for(to);
  std::vector<std::int32_t> way{from, stands_for(from)};
  for (std::int32_t bit = 1; bit < p; bit <<= 1)
    way.push_back((way.back() & ~bit) | (target & bit));
  way.push_back(to);
  return way;
}

Parents doubling_parents(std::int32_t ranks) {
  Parents parents(static_cast<std::size_t>(ranks), -1);
  for (std::int32_t rank = 1; rank < ranks; ++rank)
    parents[static_cast<std::size_t>(rank)] = rank - power_of_two(rank);
  return parents;
}

model::Seconds halving_half_time(std::int32_t ranks, model::Bytes bytes, const Uniform& net) {
  const std::int32_t p = power_of_two(ranks);
  const std::int32_t extras = ranks - p;
  double messages = 0.0;
  double parts = 0.0;
  for (std::int32_t bit = 1; bit < p; bit <<= 1) {
    messages += 1.0;
    parts += bit + std::min(extras, bit);
  }
  if (extras > 0) {
    messages += 2.0;
    parts += ranks;  // all but one, and one
  }
  return messages * net.latency + parts / ranks * bytes / net.bandwidth;
}

Collective halving_collective() {
  return {
      .name = "halving",
      .chunks = power_of_two,
      .sum = sum,
      .reduce_scatter = [](Exchange& e, const Topology& /*topology*/) { halving_scatter_parts(e); },
      .all_gather = [](Exchange& e, const Topology& /*topology*/) { doubling_gather_parts(e); },
      .tasks = tasks,
      .time = time,
      .half_time =
          [](const Topology& topology, model::Bytes bytes, const Uniform& net) {
            return halving_half_time(topology.ranks(), bytes, net);
          },
      .half_time_is_exact =
          [](const Topology& topology) {
            return power_of_two(topology.ranks()) == topology.ranks();
          },
      .broadcast =
          [](Exchange& e, const Topology& /*topology*/) {
            tree_broadcast(e, doubling_parents(e.size()));
          },
      .reduce_time =
          [](const Topology& topology, model::Bytes bytes, const Uniform& net) {
            return halving_reduce_time(topology.ranks(), bytes, net);
          },
      .broadcast_time =
          [](const Topology& topology, model::Bytes bytes, const Uniform& net) {
            const std::int32_t ranks = topology.ranks();
            return 0.5 * tree_time(levels(doubling_parents(ranks)), bytes, net);
          },
      .sum_bytes = two_halves,
      .reduce_bytes =
          [](const Topology& topology, model::Bytes bytes) {
            return (topology.ranks() - 1.0 / power_of_two(topology.ranks())) * bytes;
          },
      .way = [](const Topology& topology, std::int32_t from,
                std::int32_t to) { return halving_way(topology.ranks(), from, to); }};
}

}  // namespace tandem::planner
