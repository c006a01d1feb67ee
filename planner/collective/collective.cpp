#include "planner/collective/collective.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "model/error.hpp"
#include "planner/collective/composed.hpp"
#include "planner/collective/halving.hpp"
#include "planner/collective/hierarchical.hpp"
#include "planner/collective/ring.hpp"
#include "planner/collective/star.hpp"
#include "planner/collective/tree.hpp"

namespace tandem::planner {
namespace {

constexpr std::int32_t kMaxDepth = 64;
constexpr std::size_t kMaxShown = 64;  // characters of a text in a message

// Participants that take part, in the order of the ranks.
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

// None if the text is not the name of one of the table, with a depth where it has one.
std::optional<Allreduce> parse_single(std::string_view text) {
  const std::size_t colon = text.find(':');
  for (const Collective& collective : collectives()) {
    if (text.substr(0, colon) != collective.name) continue;
    if (colon == std::string_view::npos)
      return Allreduce{&collective, collective.has_depth ? kTreeDepth : 0};
    if (!collective.has_depth) return std::nullopt;
    const std::string_view digits = text.substr(colon + 1);
    std::int32_t depth = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), depth);
    if (error != std::errc{} || end != digits.data() + digits.size() || depth < 1 ||
        depth > kMaxDepth)
      return std::nullopt;
    return Allreduce{&collective, depth};
  }
  return std::nullopt;
}

// "hierarchical:IN+AMONG". None if it is not that, or one of the two is hierarchical itself.
std::optional<Allreduce> parse_composition(std::string_view text) {
  const std::string prefix = std::string(kHierarchical) + ":";
  const std::size_t plus = text.find('+');
  if (!text.starts_with(prefix) || plus == std::string_view::npos) return std::nullopt;
  const auto inside = parse_single(text.substr(prefix.size(), plus - prefix.size()));
  const auto among = parse_single(text.substr(plus + 1));
  for (const auto* const level : {&inside, &among}) {
    if (!level->has_value() || (*level)->collective->name == kHierarchical) return std::nullopt;
  }
  return Allreduce{.collective = &composed_collective(),
                   .depth = 0,
                   .inside = {inside->collective, inside->depth},
                   .among = {among->collective, among->depth}};
}

}  // namespace

const std::vector<Collective>& collectives() {
  static const std::vector<Collective> table{star_collective(), tree_collective(),
                                             ring_collective(), halving_collective(),
                                             hierarchical_collective()};
  return table;
}

std::string allreduce_names() {
  std::string names;
  for (const Collective& collective : collectives()) {
    names += (names.empty() ? "" : ", ") + collective.name;
    if (collective.has_depth) names += "[:DEPTH]";
    if (collective.name == kHierarchical) names += "[:IN+AMONG]";
  }
  return names;
}

Allreduce parse_allreduce(std::string_view text) {
  std::optional<Allreduce> parsed = parse_single(text);
  if (!parsed) parsed = parse_composition(text);
  if (parsed) return *parsed;
  throw Error("allreduce '" + std::string(text.substr(0, kMaxShown)) +
              "': unknown, expected one of " + allreduce_names() + " with a depth of 1 to " +
              std::to_string(kMaxDepth) + " and IN, AMONG of the others");
}

void lower_sum(model::TaskGraph& graph, const Sum& sum, const Allreduce& allreduce,
               const Proximity& proximity, std::span<Participant> participants) {
  require(std::any_of(participants.begin(), participants.end(),
                      [](const Participant& p) { return p.contributes; }),
          "sum: nobody has a term");
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
