#pragma once

// Candidate partitions for a plan whose shares are not yet chosen.

#include <span>
#include <string>
#include <vector>

#include "model/graph/memory.hpp"
#include "planner/partition/budget.hpp"
#include "planner/partition/share_search.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/request.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

using Shares = std::vector<model::Share>;  // by device

// Candidate shares, some of which may not fit; the more promising first.
struct ShareCandidates {
  std::vector<Shares> shares;
  bool memory_binds = false;  // more memory might have given other candidates
};

// Returns the candidates of `strategy` for the plan's partition; `streamed` returns the time of a
// split. Throws Error if the partition is unknown.
[[nodiscard]] ShareCandidates find_shares(const Plan& plan, const Strategy& strategy,
                                          const Budget& budget, const SplitTime& streamed,
                                          const Request& request);

// Returns the split with everything on the master.
[[nodiscard]] Split master_alone(const Plan& plan);
// Returns full shares for every device, with embedding and head on the master only.
[[nodiscard]] Shares whole_shares(const Plan& plan);
// Returns the same, with the parts that devices compute in these proportions, one for each device,
// by largest remainder; if weights are gathered, these parts alone as shares.
[[nodiscard]] Shares shares_in_parts(const Plan& plan, std::span<const double> proportions);
// Returns full shares for every device. `counts[d]` is the number of prompt positions that device d
// caches; their order is that of strategy/common/positions.hpp.
[[nodiscard]] Shares shares_by_position(const Plan& plan, std::span<const std::int64_t> counts);
// Returns the shares of `strategy`, which replicates weights, for equal devices.
[[nodiscard]] Shares uniform_shares(const Plan& plan, const Strategy& strategy);
// Returns whether the shares of `partition` are searched, by speed and memory, rather than given.
[[nodiscard]] bool is_searched(const std::string& partition);
// Makes the heads of `shares` multiples of whole key/value heads, changing them as little as
// possible.
void take_whole_kv_heads(const model::Transformer& model, Shares& shares);
// Returns the proportions of a partition other than galaxy, by device. Throws Error if it is
// unknown.
[[nodiscard]] std::vector<double> given_proportions(const Plan& plan);
// Returns whether the objective is the rate: steps in flight, and nothing streams.
[[nodiscard]] bool by_rate(const Plan& plan, Objective objective);

}  // namespace tandem::planner
