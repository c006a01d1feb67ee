#include "planner/collective/all_to_all.hpp"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <map>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::planner {
namespace {

using model::Range;
using model::TaskIndex;
using Arrivals = std::vector<std::vector<TaskIndex>>;  // by rank and slot

struct Hop {
  std::size_t step;
  std::int32_t from;
  std::int32_t to;
  std::int32_t source;
  auto operator<=>(const Hop&) const = default;
};
// The destinations of the chunks of each hop, ascending.
using Hops = std::map<Hop, std::vector<std::int32_t>>;

Hops hops_of(const Collective& collective, const Topology& topology) {
  Hops hops;
  const std::int32_t ranks = topology.ranks();
  for (std::int32_t source = 0; source < ranks; ++source) {
    for (std::int32_t target = 0; target < ranks; ++target) {
      if (source == target) continue;
      const std::vector<std::int32_t> way = collective.way(topology, source, target);
      require(way.front() == source && way.back() == target, "all-to-all: a way from end to end");
      for (std::size_t step = 0; step + 1 < way.size(); ++step) {
        if (way[step] != way[step + 1])
          hops[{step, way[step], way[step + 1], source}].push_back(target);
      }
    }
  }
  return hops;
}

std::int16_t slot_of(std::int32_t source, std::int32_t rank) {
  return static_cast<std::int16_t>(source < rank ? source : source - 1);
}

std::vector<Range> runs_of(const Exchange& exchange, const std::vector<std::int32_t>& chunks) {
  std::vector<Range> runs;
  for (const std::int32_t chunk : chunks) {
    const bool joins = !runs.empty() && runs.back().end == chunk &&
                       exchange.extent(chunk - 1).end == exchange.extent(chunk).begin;
    if (joins) {
      runs.back().end = chunk + 1;
    } else {
      runs.push_back({chunk, chunk + 1});
    }
  }
  return runs;
}

}  // namespace

std::vector<std::vector<model::TaskIndex>> all_to_all(Exchange& exchange) {
  const std::int32_t ranks = exchange.size();
  require(exchange.chunks() == ranks, "all-to-all: as many chunks as ranks");
  std::vector<std::vector<model::TaskIndex>> arrivals(
      static_cast<std::size_t>(ranks),
      std::vector<model::TaskIndex>(static_cast<std::size_t>(ranks - 1), -1));
  for (std::int32_t step = 1; step < ranks; ++step) {
    for (std::int32_t from = 0; from < ranks; ++from) {
      const std::int32_t to = (from + step) % ranks;
      const auto slot = static_cast<std::int16_t>(from < to ? from : from - 1);
      arrivals[static_cast<std::size_t>(to)][static_cast<std::size_t>(slot)] =
          exchange.deposit(from, to, {to, to + 1}, slot);
    }
  }
  return arrivals;
}

std::vector<std::vector<TaskIndex>> all_to_all(Exchange& exchange, const Collective& collective,
                                               const Topology& topology) {
  const std::int32_t ranks = exchange.size();
  require(exchange.chunks() == ranks && std::ssize(topology.group) == ranks,
          "all-to-all: as many chunks as ranks");
  const auto n = static_cast<std::size_t>(ranks);
  const auto at = [n](std::int32_t rank, std::int32_t source, std::int32_t target) {
    return (static_cast<std::size_t>(rank) * n + static_cast<std::size_t>(source)) * n +
           static_cast<std::size_t>(target);
  };
  std::vector<TaskIndex> came(at(ranks, 0, 0), -1);  // by rank, source and target
  for (const auto& [hop, targets] : hops_of(collective, topology)) {
    for (const Range run : runs_of(exchange, targets)) {
      const std::int16_t slot = slot_of(hop.source, hop.to);
      TaskIndex sent = -1;
      if (hop.from == hop.source) {
        sent = exchange.deposit(hop.from, hop.to, run, slot);
      } else {
        std::vector<TaskIndex> after;
        for (std::int32_t target = run.begin; target < run.end; ++target) {
          const TaskIndex task = came[at(hop.from, hop.source, target)];
          if (task >= 0) after.push_back(task);
        }
        std::sort(after.begin(), after.end());
        after.erase(std::unique(after.begin(), after.end()), after.end());
        sent = exchange.pass_on(hop.from, slot_of(hop.source, hop.from), hop.to, run, slot, after);
      }
      for (std::int32_t target = run.begin; target < run.end; ++target)
        came[at(hop.to, hop.source, target)] =
            exchange.empty({target, target + 1}) ? TaskIndex{-1} : sent;
    }
  }
  Arrivals arrivals(static_cast<std::size_t>(ranks));
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    for (std::int32_t source = 0; source < ranks; ++source) {
      if (source != rank)
        arrivals[static_cast<std::size_t>(rank)].push_back(came[at(rank, source, rank)]);
    }
  }
  return arrivals;
}

model::Seconds all_to_all_time(const Collective& collective, const Topology& topology,
                               model::Bytes bytes, const Uniform& net) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> pair;  // chunks of this step
  model::Seconds time{};
  std::size_t step = 0;
  const auto end_step = [&] {
    std::size_t most = 0;
    for (const auto& [ranks, chunks] : pair) most = std::max(most, chunks);
    const double part = static_cast<double>(most) / static_cast<double>(topology.group.size());
    if (most > 0) time = time + (net.latency + part * bytes / net.bandwidth);
    pair.clear();
  };
  for (const auto& [hop, targets] : hops_of(collective, topology)) {
    if (hop.step != step) end_step();
    step = hop.step;
    pair[{hop.from, hop.to}] += targets.size();
  }
  end_step();
  return time;
}

model::Bytes all_to_all_bytes(const Collective& collective, const Topology& topology,
                              model::Bytes bytes) {
  std::size_t chunks = 0;
  for (const auto& [hop, targets] : hops_of(collective, topology)) chunks += targets.size();
  return static_cast<double>(chunks) / static_cast<double>(topology.group.size()) * bytes;
}

}  // namespace tandem::planner
