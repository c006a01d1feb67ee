#include "planner/collective/collective.hpp"

#include <algorithm>

#include "model/base/error.hpp"

namespace tandem::planner {
namespace {

// Returns the active participants in the order of ranks.
std::vector<Participant*> ranked(const Sum& sum, const Proximity& proximity,
                                 std::span<Participant> participants) {
  std::vector<Participant*> by_device(proximity.order.size(), nullptr);
  for (Participant& participant : participants) {
    require(0 <= participant.device &&
                participant.device < static_cast<model::DeviceIndex>(by_device.size()),
            "sum: a participant outside the cluster");
    if (participant.contributes || participant.receives || participant.device == sum.master)
      by_device[static_cast<std::size_t>(participant.device)] = &participant;
  }
  std::vector<Participant*> ranks;
  for (const model::DeviceIndex device : proximity.order) {
    if (Participant* const p = by_device[static_cast<std::size_t>(device)]) ranks.push_back(p);
  }
  require(!ranks.empty() && ranks.front()->device == sum.master,
          "sum: the master does not take part");
  return ranks;
}

}  // namespace

model::Bytes two_halves(const Topology& topology, model::Bytes bytes) {
  return 2.0 * (topology.ranks() - 1) * bytes;
}

void lower_sum(model::TaskGraph& graph, const Sum& sum, const Allreduce& allreduce,
               const Proximity& proximity, std::span<Participant> participants) {
  require(std::any_of(participants.begin(), participants.end(),
                      [](const Participant& p) { return p.contributes; }),
          "sum: no participant has a term");
  const std::vector<Participant*> ranks = ranked(sum, proximity, participants);
  Topology topology{
      .depth = allreduce.depth, .group = {}, .inside = allreduce.inside, .among = allreduce.among};
  std::vector<Participant> copies;
  for (const Participant* const rank : ranks) {
    topology.group.push_back(proximity.group[static_cast<std::size_t>(rank->device)]);
    copies.push_back(*rank);
  }
  const auto size = static_cast<std::int32_t>(ranks.size());
  Exchange exchange(graph, sum, std::move(copies), allreduce.collective->chunks(size));
  if (size > 1) allreduce.collective->sum(exchange, topology);
  for (Participant& participant : participants) participant.sum.clear();
  for (std::int32_t rank = 0; rank < size; ++rank) {
    if (!exchange.receives(rank)) continue;
    require(exchange.holds(rank, exchange.all()), "sum: a rank did not get it");
    ranks[static_cast<std::size_t>(rank)]->sum = exchange.made_by(rank, exchange.all());
  }
}

Ranking ranking(const Proximity& proximity, const std::vector<bool>& takes_part,
                const Allreduce& allreduce) {
  Ranking made{.devices = {},
               .topology = {.depth = allreduce.depth,
                            .group = {},
                            .inside = allreduce.inside,
                            .among = allreduce.among}};
  for (const model::DeviceIndex device : proximity.order) {
    const auto d = static_cast<std::size_t>(device);
    if (!takes_part[d]) continue;
    made.devices.push_back(device);
    made.topology.group.push_back(proximity.group[d]);
  }
  return made;
}

void gather_at_master(Exchange& exchange, std::span<const std::int32_t> owners) {
  require(owners.size() == static_cast<std::size_t>(exchange.chunks()), "sum: an owner a chunk");
  for (std::int32_t chunk = 0; chunk < exchange.chunks(); ++chunk) {
    const std::int32_t owner = owners[static_cast<std::size_t>(chunk)];
    if (owner != 0) exchange.copy(owner, 0, {chunk, chunk + 1});
  }
}

}  // namespace tandem::planner
