#include "planner/collective/composed.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "model/base/error.hpp"
#include "planner/collective/hierarchical.hpp"

namespace tandem::planner {
namespace {

using model::Range;
using Ranks = std::vector<std::int32_t>;

// Ranks by group, ascending; groups in the order of their leaders, rank 0's first.
std::vector<Ranks> groups_of(const Topology& topology) {
  std::vector<Ranks> groups;
  std::unordered_map<std::int32_t, std::size_t> number;
  for (std::size_t rank = 0; rank < topology.group.size(); ++rank) {
    const auto [at, is_new] = number.emplace(topology.group[rank], groups.size());
    if (is_new) groups.emplace_back();
    groups[at->second].push_back(static_cast<std::int32_t>(rank));
  }
  return groups;
}

Topology level_topology(const Level& level, std::size_t ranks) {
  return {.depth = level.depth, .group = Ranks(ranks, 0)};
}

std::int32_t size_of(const Ranks& ranks) { return static_cast<std::int32_t>(ranks.size()); }

// Chunks of the whole exchange that belong to these ranks, joined where they are adjacent.
std::vector<Range> runs_of(const Exchange& exchange, const Ranks& ranks) {
  std::vector<Range> runs;
  for (const std::int32_t rank : ranks) {
    const Range part = exchange.part(rank);
    for (std::int32_t i = part.begin; i < part.end; ++i) {
      const Range next = exchange.extent(i);
      if (next.empty()) continue;
      if (!runs.empty() && runs.back().end == next.begin) {
        runs.back().end = next.end;
      } else {
        runs.push_back(next);
      }
    }
  }
  return runs;
}

// The lowering of one composition.
class Composition {
 public:
  Composition(Exchange& exchange, const Topology& topology)
      : exchange_(&exchange), topology_(&topology), groups_(groups_of(topology)) {
    require(topology.inside.collective != nullptr && topology.among.collective != nullptr,
            "hierarchical: a composition of two collectives");
    for (const Ranks& group : groups_) leaders_.push_back(group.front());
  }

  void sum() {
    for (const Ranks& group : groups_) reduce(group, whole());
    level(topology_->among, leaders_, group_receives(), whole(), &Collective::sum);
    for (const Ranks& group : groups_) broadcast(group, whole());
  }

  void broadcast() {
    level(topology_->among, leaders_, group_receives(), whole(), &Collective::broadcast);
    for (const Ranks& group : groups_) broadcast(group, whole());
  }

  void reduce_scatter() {
    for (const Ranks& group : groups_) {
      for (const Range& run : runs_of(*exchange_, others(group))) reduce(group, run);
    }
    halves_among(&Collective::reduce_scatter);
    for (const Ranks& group : groups_) halves_within(group, &Collective::reduce_scatter);
  }

  void all_gather() {
    for (const Ranks& group : groups_) halves_within(group, &Collective::all_gather);
    halves_among(&Collective::all_gather);
    for (const Ranks& group : groups_) {
      for (const Range& run : runs_of(*exchange_, others(group))) broadcast(group, run);
    }
  }

 private:
  using Lower = std::function<void(Exchange&, const Topology&)> Collective::*;

  [[nodiscard]] Range whole() const {
    Range all{};
    for (std::int32_t i = 0; i < exchange_->chunks(); ++i) {
      const Range next = exchange_->extent(i);
      if (next.empty()) continue;
      all =
          all.empty() ? next : Range{std::min(all.begin, next.begin), std::max(all.end, next.end)};
    }
    return all;
  }

  [[nodiscard]] Ranks others(const Ranks& group) const {
    Ranks found;
    for (std::int32_t rank = 0; rank < exchange_->size(); ++rank) {
      if (!std::ranges::binary_search(group, rank)) found.push_back(rank);
    }
    return found;
  }

  // Returns, by group, whether a rank of it receives.
  [[nodiscard]] std::vector<bool> group_receives() const {
    std::vector<bool> found;
    for (const Ranks& group : groups_) {
      found.push_back(
          std::ranges::any_of(group, [&](std::int32_t rank) { return exchange_->receives(rank); }));
    }
    found.front() = true;
    return found;
  }

  // Lowers a level on the data in `run`, divided as its collective requires.
  void level(const Level& level, const Ranks& ranks, const std::vector<bool>& receiving, Range run,
             Lower lower) {
    const std::int32_t chunks = level.collective->chunks(size_of(ranks));
    lowered(level, ranks, receiving, equal_columns(run, chunks, exchange_->block()).chunks, lower);
  }

  void lowered(const Level& level, const Ranks& ranks, const std::vector<bool>& receiving,
               std::vector<Range> chunks, Lower lower) {
    if (ranks.size() < 2) return;
    Exchange part = exchange_->among(ranks, receiving, std::move(chunks));
    (level.collective->*lower)(part, level_topology(level, ranks.size()));
    exchange_->take(part, ranks);
  }

  // At its leader.
  void reduce(const Ranks& group, Range run) {
    std::vector<bool> receiving(group.size(), false);
    receiving.front() = true;
    const bool terms = std::any_of(group.begin() + 1, group.end(),
                                   [&](std::int32_t rank) { return holds_some(rank, run); });
    if (terms) level(topology_->inside, group, receiving, run, &Collective::sum);
  }

  void broadcast(const Ranks& group, Range run) {
    std::vector<bool> receiving;
    for (const std::int32_t rank : group) receiving.push_back(exchange_->receives(rank));
    if (std::find(receiving.begin() + 1, receiving.end(), true) == receiving.end()) return;
    level(topology_->inside, group, receiving, run, &Collective::broadcast);
  }

  // Returns whether the rank holds data in a run.
  [[nodiscard]] bool holds_some(std::int32_t rank, Range run) const {
    for (std::int32_t i = 0; i < exchange_->chunks(); ++i) {
      const Range extent = exchange_->extent(i);
      const bool within = !extent.empty() && run.begin <= extent.begin && extent.end <= run.end;
      if (within && exchange_->holds(rank, {i, i + 1})) return true;
    }
    return false;
  }

  // Halves among leaders, on the parts that belong to groups.
  void halves_among(Lower lower) {
    lowered(topology_->among, leaders_, group_receives(), parts_of(groups_), lower);
  }

  // Halves within a group, on the parts of its ranks.
  void halves_within(const Ranks& group, Lower lower) {
    std::vector<bool> receiving;
    std::vector<Ranks> owners;
    for (const std::int32_t rank : group) {
      // A leader's data goes on to other groups.
      receiving.push_back(rank == group.front() || exchange_->receives(rank));
      owners.push_back({rank});
    }
    lowered(topology_->inside, group, receiving, parts_of(owners), lower);
  }

  // Returns the chunks of each of several owners, in order: equally many for each, some of them
  // empty, as a part need not be contiguous (rows of several sequences are not).
  [[nodiscard]] std::vector<Range> parts_of(const std::vector<Ranks>& owners) const {
    std::vector<std::vector<Range>> runs;
    std::size_t most = 1;
    for (const Ranks& ranks : owners) {
      runs.push_back(runs_of(*exchange_, ranks));
      most = std::max(most, runs.back().size());
    }
    std::vector<Range> chunks;
    for (std::vector<Range>& own : runs) {
      own.resize(most, own.empty() ? Range{} : Range{own.back().end, own.back().end});
      chunks.insert(chunks.end(), own.begin(), own.end());
    }
    return chunks;
  }

  Exchange* exchange_;
  const Topology* topology_;
  std::vector<Ranks> groups_;
  Ranks leaders_;
};

using Time =
    std::function<model::Seconds(const Topology&, model::Bytes, const Uniform&)> Collective::*;

// Times of the levels of one topology: within groups, of the slowest group.
struct Times {
  Times(const Topology& of, const Uniform& over)
      : topology(&of), groups(groups_of(of)), net(over) {}

  [[nodiscard]] model::Seconds among(Time time, model::Bytes bytes) const {
    return level(topology->among, groups.size(), time, bytes);
  }
  [[nodiscard]] model::Seconds inside(Time time, model::Bytes bytes) const {
    model::Seconds longest{};
    for (const Ranks& group : groups)
      longest = std::max(longest, level(topology->inside, group.size(), time, bytes));
    return longest;
  }
  [[nodiscard]] model::Seconds level(const Level& of, std::size_t ranks, Time time,
                                     model::Bytes bytes) const {
    if (ranks < 2) return {};
    return (of.collective->*time)(level_topology(of, ranks), bytes, net);
  }

  const Topology* topology;
  std::vector<Ranks> groups;
  Uniform net;
};

model::Seconds sum_time(const Topology& topology, model::Bytes bytes, const Uniform& net) {
  const Times times(topology, net);
  return times.inside(&Collective::reduce_time, bytes) + times.among(&Collective::time, bytes) +
         times.inside(&Collective::broadcast_time, bytes);
}

model::Seconds half_time(const Topology& topology, model::Bytes bytes, const Uniform& net) {
  const Times times(topology, net);
  const double own = 1.0 / static_cast<double>(times.groups.size());
  model::Seconds way{};  // what belongs to other groups, to or from the leader
  if (times.groups.size() > 1) {
    const model::Bytes rest = (1.0 - own) * bytes;
    way = 2.0 * std::max(times.inside(&Collective::reduce_time, rest),
                         times.inside(&Collective::broadcast_time, rest));
  }
  return way + times.among(&Collective::half_time, bytes) +
         times.inside(&Collective::half_time, own * bytes);
}

model::Seconds broadcast_time(const Topology& topology, model::Bytes bytes, const Uniform& net) {
  const Times times(topology, net);
  return times.among(&Collective::broadcast_time, bytes) +
         times.inside(&Collective::broadcast_time, bytes);
}

model::Seconds reduce_time(const Topology& topology, model::Bytes bytes, const Uniform& net) {
  const Times times(topology, net);
  return times.inside(&Collective::reduce_time, bytes) +
         times.among(&Collective::reduce_time, bytes);
}

using Bytes = std::function<model::Bytes(const Topology&, model::Bytes)> Collective::*;

model::Bytes level_bytes(const Level& of, std::size_t ranks, Bytes sent, model::Bytes bytes) {
  if (ranks < 2) return {};
  return (of.collective->*sent)(level_topology(of, ranks), bytes);
}

model::Bytes reduced_within(const Topology& topology, const std::vector<Ranks>& groups,
                            model::Bytes bytes) {
  model::Bytes total{};
  for (const Ranks& group : groups)
    total = total + level_bytes(topology.inside, group.size(), &Collective::reduce_bytes, bytes);
  return total;
}

model::Bytes sum_bytes(const Topology& topology, model::Bytes bytes) {
  const std::vector<Ranks> groups = groups_of(topology);
  const auto members = static_cast<double>(topology.group.size() - groups.size());
  return reduced_within(topology, groups, bytes) +
         level_bytes(topology.among, groups.size(), &Collective::sum_bytes, bytes) +
         members * bytes;  // broadcasts
}

model::Bytes reduce_bytes(const Topology& topology, model::Bytes bytes) {
  const std::vector<Ranks> groups = groups_of(topology);
  return reduced_within(topology, groups, bytes) +
         level_bytes(topology.among, groups.size(), &Collective::reduce_bytes, bytes);
}

Ranks way_of(const Topology& topology, std::int32_t from, std::int32_t to) {
  const std::vector<Ranks> groups = groups_of(topology);
  const auto place = [](const Ranks& of, std::int32_t rank) {
    return static_cast<std::int32_t>(std::ranges::find(of, rank) - of.begin());
  };
  Ranks leaders;
  for (const Ranks& group : groups) leaders.push_back(group.front());
  const auto group_of = [&](std::int32_t rank) -> const Ranks& {
    return *std::ranges::find_if(
        groups, [&](const Ranks& group) { return std::ranges::binary_search(group, rank); });
  };
  Ranks way{from};
  const auto go = [&](const Level& level, const Ranks& ranks, std::int32_t next) {
    if (way.back() == next) return;
    const Ranks part = level.collective->way(level_topology(level, ranks.size()),
                                             place(ranks, way.back()), place(ranks, next));
    for (std::size_t i = 1; i < part.size(); ++i)
      way.push_back(ranks[static_cast<std::size_t>(part[i])]);
  };
  const Ranks& own = group_of(from);
  const Ranks& other = group_of(to);
  if (&own != &other) {
    go(topology.inside, own, own.front());
    go(topology.among, leaders, other.front());
  }
  go(topology.inside, other, to);
  return way;
}

Collective composed() {
  return {
      .name = std::string(kHierarchical),
      .has_depth = false,
      .chunks = [](std::int32_t /*ranks*/) { return 1; },
      .sum = [](Exchange& e, const Topology& topology) { Composition(e, topology).sum(); },
      .reduce_scatter = [](Exchange& e,
                           const Topology& topology) { Composition(e, topology).reduce_scatter(); },
      .all_gather = [](Exchange& e,
                       const Topology& topology) { Composition(e, topology).all_gather(); },
      // As for a ring among all ranks, since groups are unknown here.
      .tasks = [](std::int64_t ranks) { return 3 * ranks * (ranks - 1); },
      .time = sum_time,
      .half_time = half_time,
      .half_time_is_exact = [](const Topology& topology) { return topology.group.size() == 1; },
      .broadcast = [](Exchange& e,
                      const Topology& topology) { Composition(e, topology).broadcast(); },
      .reduce_time = reduce_time,
      .broadcast_time = broadcast_time,
      .sum_bytes = sum_bytes,
      .reduce_bytes = reduce_bytes,
      .way = way_of};
}

}  // namespace

const Collective& composed_collective() {
  static const Collective made = composed();
  return made;
}

}  // namespace tandem::planner
