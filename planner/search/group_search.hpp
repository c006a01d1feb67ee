#pragma once

// Pipelines whose stages are groups of devices: the members and the layers of each group.

#include <string>
#include <string_view>
#include <vector>

#include "planner/search/request.hpp"
#include "planner/search/share_candidates.hpp"

namespace tandem::planner {

// The devices of each stage, ascending.
using Groups = std::vector<std::vector<model::DeviceIndex>>;

// Parses "a,b/c,d" (names of devices, each exactly once) or "auto": groups of near devices by
// network latency (collective/proximity.hpp). The master's group is first. Throws Error naming the
// text and what was expected.
[[nodiscard]] Groups parse_groups(std::string_view text, const model::Cluster& cluster,
                                  model::DeviceIndex master);

// Returns the text of `groups` that parse_groups() reads: "a,b/c,d".
[[nodiscard]] std::string to_text(const Groups& groups, const model::Cluster& cluster);

// Returns whether a group has several devices.
[[nodiscard]] bool has_group(const Groups& groups);

// Candidates for the shares of `plan`, which has an all-reduce and a layout but no shares. Within
// each group heads and columns are split by speed, evenly, or by memory. Layers over groups and the
// order of groups come from fastest_chain (partition/exact/chain.hpp), given the times of one and
// two layers of each group, within memory (non-uniform layers: layer_assignments, rate_search.hpp).
// They minimise the time of a request or, with several steps in flight and that objective, the time
// from request to request. Empty if the layers never fit; then `first` is the closest candidate,
// for reporting the shortage.
struct GroupCandidates {
  std::vector<Shares> shares;
  Shares first;
};
[[nodiscard]] GroupCandidates group_candidates(const Plan& plan, const Groups& groups,
                                               const Budget& budget, const Request& request);

// Returns equal numbers of layers, and equal parts of them in each group: for counting messages.
[[nodiscard]] Shares even_group_shares(const Plan& plan, const Groups& groups);

}  // namespace tandem::planner
