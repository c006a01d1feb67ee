#pragma once

// Sums over small clusters, for the tests of the collectives in every backend.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "model/predict/analytic.hpp"
#include "planner/collective/all_to_all.hpp"
#include "planner/collective/collective.hpp"
#include "planner/collective/hierarchical.hpp"
#include "tests/support/plain_clusters.hpp"

namespace tandem::test {

// Every collective of the table, trees of three depths.
inline const std::vector<std::string> kAllreduces = [] {
  std::vector<std::string> names;
  for (const planner::Collective& row : planner::collectives()) {
    if (row.has_depth) names.push_back(row.name + ":1");
    names.push_back(row.name);
    if (row.has_depth) names.push_back(row.name + ":3");
  }
  return names;
}();

// Within groups and among their leaders: every collective in both places, with itself, a ring and a
// star. `star+star` is `hierarchical`.
inline const std::vector<std::string> kCompositions = [] {
  std::vector<std::string> names;
  for (const planner::Collective& row : planner::collectives()) {
    if (row.name == planner::kHierarchical) continue;
    const std::string name = row.name + (row.has_depth ? ":3" : "");
    for (const std::string& levels :
         {name + "+ring", "ring+" + name, "star+" + name, name + "+" + name}) {
      const std::string composition = std::string(planner::kHierarchical) + ":" + levels;
      if (levels != "star+star" && std::ranges::find(names, composition) == names.end())
        names.push_back(composition);
    }
  }
  return names;
}();

inline std::vector<std::string> with_compositions(std::vector<std::string> names) {
  names.insert(names.end(), kCompositions.begin(), kCompositions.end());
  return names;
}

inline std::vector<planner::Participant> everyone(model::DeviceIndex devices) {
  std::vector<planner::Participant> participants;
  for (model::DeviceIndex d = 0; d < devices; ++d) participants.push_back({.device = d});
  return participants;
}

constexpr std::int32_t kSumRows = 3;

// One sum of `columns` columns; fills in the participants' `sum`.
inline model::TaskGraph sum_graph_of(const planner::Proximity& near, model::DeviceIndex master,
                                     const std::string& allreduce, std::int32_t columns,
                                     std::vector<planner::Participant>& participants,
                                     model::WireFormat wire = model::WireFormat::f32) {
  model::TaskGraph graph(model::Batch{{{.rows = kSumRows}}}, wire);
  planner::lower_sum(graph,
                     {.master = master, .layer = 7, .rows = {0, kSumRows}, .columns = {0, columns}},
                     planner::parse_allreduce(allreduce), near, participants);
  return graph;
}

inline model::TaskGraph sum_graph(const model::Cluster& cluster, model::DeviceIndex master,
                                  const std::string& allreduce, std::int32_t columns,
                                  std::vector<planner::Participant>& participants) {
  return sum_graph_of(planner::proximity(cluster, master), master, allreduce, columns,
                      participants);
}

// What device 0 holds, to all others that receive.
inline model::TaskGraph broadcast_graph(const planner::Proximity& near,
                                        const std::string& allreduce, std::int32_t columns,
                                        const std::vector<bool>& receives) {
  model::TaskGraph graph(model::Batch{{{.rows = kSumRows}}});
  const planner::Allreduce chosen = planner::parse_allreduce(allreduce);
  const planner::Ranking ranking =
      planner::ranking(near, std::vector<bool>(near.order.size(), true), chosen);
  std::vector<planner::Participant> ranks;
  for (const model::DeviceIndex device : ranking.devices)
    ranks.push_back({.device = device,
                     .contributes = ranks.empty(),
                     .receives = receives[static_cast<std::size_t>(device)]});
  const auto size = static_cast<std::int32_t>(ranks.size());
  planner::Exchange exchange(
      graph, {.master = ranks.front().device, .rows = {0, kSumRows}, .columns = {0, columns}},
      ranks, chosen.collective->chunks(size));
  chosen.collective->broadcast(exchange, ranking.topology);
  return graph;
}

// Rows or columns of a buffer in parts of these sizes, by rank, each cut into `tiles` chunks.
inline planner::Cut cut_of(planner::Cut::Axis axis, const std::vector<std::int32_t>& sizes,
                           std::int32_t tiles = 1) {
  planner::Cut cut{.axis = axis, .chunks = {}};
  std::int32_t begin = 0;
  for (const std::int32_t size : sizes) {
    for (std::int32_t t = 0; t < tiles; ++t)
      cut.chunks.push_back({begin + size * t / tiles, begin + size * (t + 1) / tiles});
    begin += size;
  }
  return cut;
}

struct Halved {
  model::TaskGraph graph;
  std::vector<model::DeviceIndex> devices;          // by rank
  std::vector<model::Range> parts;                  // by rank: of the cut's dimension
  std::vector<std::vector<model::TaskIndex>> made;  // by rank: what made its own part
};

// One half of a sum, among all devices: a reduce-scatter, of which each rank has a term, or an
// all-gather, of which each has its part. `rows` and `columns` are of `partial`.
inline Halved half_graph_of(const planner::Proximity& near, const std::string& allreduce,
                            bool gathers, std::int32_t rows, std::int32_t columns,
                            const planner::Cut& cut) {
  Halved made{.graph = model::TaskGraph(model::Batch{{{.rows = rows}}}),
              .devices = {},
              .parts = {},
              .made = {}};
  const planner::Allreduce chosen = planner::parse_allreduce(allreduce);
  const planner::Ranking ranking =
      planner::ranking(near, std::vector<bool>(near.order.size(), true), chosen);
  std::vector<planner::Participant> ranks;
  for (const model::DeviceIndex device : ranking.devices)
    ranks.push_back({.device = device, .contributes = !gathers});
  planner::Exchange exchange(made.graph, {.rows = {0, rows}, .columns = {0, columns}}, ranks, cut,
                             {model::BufferKind::partial, 0});
  for (std::int32_t rank = 0; gathers && rank < exchange.size(); ++rank)
    exchange.give(rank, exchange.part(rank), -1);
  (gathers ? chosen.collective->all_gather : chosen.collective->reduce_scatter)(exchange,
                                                                                ranking.topology);
  made.devices = ranking.devices;
  for (std::int32_t rank = 0; rank < exchange.size(); ++rank) {
    const model::Range part = exchange.part(rank);
    made.parts.push_back({cut.chunks[static_cast<std::size_t>(part.begin)].begin,
                          cut.chunks[static_cast<std::size_t>(part.end) - 1].end});
    made.made.push_back(exchange.made_by(rank, part));
  }
  return made;
}

// An all-to-all of chunks of rows or columns, of these sizes.
struct Dealt {
  model::TaskGraph graph;
  std::vector<model::DeviceIndex> devices;              // by rank
  std::vector<std::vector<model::TaskIndex>> arrivals;  // by rank and slot
};

inline Dealt dealt(const planner::Proximity& near, const std::string& allreduce, std::int32_t rows,
                   std::int32_t columns, const planner::Cut& cut) {
  Dealt made{
      .graph = model::TaskGraph(model::Batch{{{.rows = rows}}}), .devices = {}, .arrivals = {}};
  const planner::Allreduce chosen = planner::parse_allreduce(allreduce);
  const planner::Ranking ranking =
      planner::ranking(near, std::vector<bool>(near.order.size(), true), chosen);
  std::vector<planner::Participant> ranks;
  for (const model::DeviceIndex device : ranking.devices) ranks.push_back({.device = device});
  planner::Exchange exchange(
      made.graph, {.master = ranking.devices.front(), .rows = {0, rows}, .columns = {0, columns}},
      ranks, cut, {model::BufferKind::partial, 0});
  made.arrivals = planner::all_to_all(exchange, *chosen.collective, ranking.topology);
  made.devices = ranking.devices;
  return made;
}

inline Halved half_graph(const model::Cluster& cluster, const std::string& allreduce, bool gathers,
                         std::int32_t rows, std::int32_t columns, const planner::Cut& cut) {
  return half_graph_of(planner::proximity(cluster, 0), allreduce, gathers, rows, columns, cut);
}

// Groups of these sizes, consecutive or dealt out in turns, on ways that are all alike.
inline planner::Proximity grouped(const std::vector<int>& sizes, bool in_turns) {
  planner::Proximity near;
  std::vector<int> left = sizes;
  const int devices = std::accumulate(sizes.begin(), sizes.end(), 0);
  std::size_t group = 0;
  while (static_cast<int>(near.group.size()) < devices) {
    while (left[group] == 0) group = (group + 1) % left.size();
    near.order.push_back(static_cast<model::DeviceIndex>(near.group.size()));
    near.group.push_back(static_cast<std::int32_t>(group));
    --left[group];
    if (in_turns) group = (group + 1) % left.size();
  }
  return near;
}

inline planner::Topology topology_of(const planner::Allreduce& chosen,
                                     const std::vector<int>& groups) {
  return {.depth = chosen.depth,
          .group = grouped(groups, false).group,
          .inside = chosen.inside,
          .among = chosen.among};
}

// By rank, the group.
inline std::vector<std::int32_t> groups_by_rank(const model::Cluster& cluster,
                                                model::DeviceIndex master) {
  const planner::Proximity near = planner::proximity(cluster, master);
  std::vector<std::int32_t> group;
  for (const model::DeviceIndex device : near.order)
    group.push_back(near.group[static_cast<std::size_t>(device)]);
  return group;
}

}  // namespace tandem::test
