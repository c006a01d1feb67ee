#pragma once

// The partition of a prompt's positions over devices, for strategies that split caches by position
// (KvCache::by_position).

#include <cstdint>
#include <span>
#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// The owner of a position caches its keys and values and computes its row (CSPS's decode over a
// spread cache, "Q moves", applied to prompts as well). The plan gives each device one range of the
// prompt (Share::part); later positions belong to the device with the end of the prompt.
struct PositionPart {
  model::DeviceIndex device = 0;
  model::Range positions{};  // of the last part: without an end
  bool operator==(const PositionPart&) const = default;
};
// Returns the parts in the order of positions, empty ones first.
[[nodiscard]] std::vector<PositionPart> position_parts(const Plan& plan);

// Returns where the parts of n = `blocks` blocks end, in proportion to weights w_i with the sum W:
// part i has blocks [floor(n (w_0 + .. + w_(i-1)) / W), floor(n (w_0 + .. + w_i) / W)), so at most
// ceil(n w_i / W).
[[nodiscard]] std::vector<std::int64_t> block_ends(std::int64_t blocks,
                                                   std::span<const std::int64_t> weights);
// Plans that serve several requests (Plan::capacity) partition each sequence's cache on its own: a
// scheduler gives a sequence to one device, or partitions `positions` of it over all devices with a
// part of the plan's prompt, in whole blocks, by block_ends() of these parts. The rule depends on
// the plan and on `positions` alone, so announcements need no parts.
[[nodiscard]] std::vector<PositionPart> sequence_parts(const Plan& plan, std::int64_t positions);
// Returns the blocks that a device with `kept` positions of the prompt reserves in such a plan: its
// proportion of all that the plan reserves, and those of one request of the plan's lengths more, as
// sequences that lie on one device do not fit exactly.
[[nodiscard]] std::int64_t served_blocks(const Plan& plan, model::Range kept);
// Throws Error unless the plan's parts cover the whole prompt in order, the master's last if keys
// and values move to it once.
void check_positions(const Plan& plan);

// Returns the order of parts for a plan without shares: the order of ranks (of the plan's
// collective), but last the device with the largest memory budget, of equal ones the master; if all
// keys and values move to the master, the master.
[[nodiscard]] std::vector<model::DeviceIndex> position_order(const Plan& plan);
// Returns whether the prompt has two positions for each device; else the last device owns all of
// it.
[[nodiscard]] bool splits_prompt(const Plan& plan);
// Returns the number of prompt positions by device, in proportion to `weights`: equal weights give
// equal parts, the larger ones first. Ignores memory.
[[nodiscard]] std::vector<std::int64_t> positions_in_proportion(const Plan& plan,
                                                                const std::vector<double>& weights);
// The same, balancing by the cost model the time of a prompt's rows and of answering queries for
// their keys. With a causal mask all later parts query the first ones. Part i has S_i positions,
// a_i seconds a row without attention and b_i per row and key, P is the prompt's length:
//   S_i (a_i + b_i (P - positions before it - S_i / 2)), equal for all i
[[nodiscard]] std::vector<std::int64_t> positions_by_prompt_work(const Plan& plan);

}  // namespace tandem::planner
