#pragma once

// Ways to share a model out over the devices of a plan that has no shares yet.

#include <span>
#include <string>
#include <vector>

#include "model/graph/memory.hpp"
#include "planner/partition/budget.hpp"
#include "planner/partition/share_search.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

using Shares = std::vector<model::Share>;  // by device

// Ways to share the model out, of which some may not fit; the more promising first.
struct ShareCandidates {
  std::vector<Shares> shares;
  bool memory_binds = false;  // more memory might have given others
};

// Returns the candidates of `strategy` for the plan's partition, `streamed` telling the time of a
// split. Throws Error if the partition is unknown.
[[nodiscard]] ShareCandidates find_shares(const Plan& plan, const Strategy& strategy,
                                          const Budget& budget, const SplitTime& streamed,
                                          const Request& request);

// Returns the split that gives the master everything.
[[nodiscard]] Split master_alone(const Plan& plan);
// Returns, by device, everything for every device but the ends, which are the master's.
[[nodiscard]] Shares whole_shares(const Plan& plan);
// Returns the same, with the parts that devices compute in these proportions, one a device, by
// largest remainder; where weights are gathered these parts alone, as shares.
[[nodiscard]] Shares shares_in_parts(const Plan& plan, std::span<const double> proportions);
// Returns everything for every device, of whose prompt's positions each keeps so many, one a
// device, in the order of strategy/common/positions.hpp.
[[nodiscard]] Shares shares_by_position(const Plan& plan, std::span<const std::int64_t> counts);
// Returns what devices hold with `strategy`, which replicates, where they are alike.
[[nodiscard]] Shares uniform_shares(const Plan& plan, const Strategy& strategy);
// Whether the shares of `partition` are sought, by speed and memory, not given.
[[nodiscard]] bool is_searched(const std::string& partition);
// Makes heads as near to those of `shares` as they can be with each key/value head at one device.
void take_whole_kv_heads(const model::Transformer& model, Shares& shares);
// Returns the proportions of a partition other than galaxy, by device. Throws Error if it is
// unknown.
[[nodiscard]] std::vector<double> given_proportions(const Plan& plan);
// Whether it is the rate that counts: what goes round has steps in flight, for which nothing loads.
[[nodiscard]] bool by_rate(const Plan& plan, Objective objective);

}  // namespace tandem::planner
