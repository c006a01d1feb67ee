#pragma once

// Pipelines whose stages are groups of devices: who is in which, and which layers each computes.

#include <string_view>
#include <vector>

#include "planner/search/search.hpp"
#include "planner/search/share_candidates.hpp"

namespace tandem::planner {

// The devices of each stage, ascending.
using Groups = std::vector<std::vector<model::DeviceIndex>>;

// From "a,b/c,d" (names of devices; all of them, each once), or "auto": those that are near one
// another by the latencies of the network (collective/proximity.hpp). The master's group is first.
// Throws Error naming the text and what was expected.
[[nodiscard]] Groups parse_groups(std::string_view text, const model::Cluster& cluster,
                                  model::DeviceIndex master);

// Candidates for the shares of `plan`, which has an all-reduce and a layout but no shares: within
// each group heads and columns by speed, evenly, or by memory; layers over the groups and the
// groups' order by fastest_chain (partition/exact/chain.hpp) of the times that one and two layers
// of each take there, as far as memory goes (of layers that are not alike by layer_assignments,
// rate_search.hpp): of the least time of the request or, where several steps are
// in flight and the objective says so, of the least time from request to request. Empty if the
// layers fit with none of them; then `first` is what lacks least effort to tell the shortage by.
struct GroupCandidates {
  std::vector<Shares> shares;
  Shares first;
};
[[nodiscard]] GroupCandidates group_candidates(const Plan& plan, const Groups& groups,
                                               const Budget& budget, const Request& request);

// Layers in equal numbers and equal parts of them in each group: what messages are counted by.
[[nodiscard]] Shares even_group_shares(const Plan& plan, const Groups& groups);

}  // namespace tandem::planner
