#include "planner/share_candidates.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "model/error.hpp"
#include "planner/partition/equation5.hpp"
#include "planner/partition/galaxy.hpp"
#include "planner/partition/largest_remainder.hpp"
#include "planner/partition/layers.hpp"
#include "planner/partition/proportions.hpp"
#include "planner/rate_search.hpp"
#include "planner/recurrent.hpp"
#include "planner/strategy/pipeline.hpp"

namespace tandem::planner {
namespace {

ShareCandidates split_shares(const Plan& plan, const Budget& budget, const SplitTime& streamed) {
  SplitCandidates found;
  if (plan.partition == kAutoPartition) found = split_candidates(budget, streamed);
  // What does not fit is split as well, so that the shortage can be told.
  if (plan.partition == "galaxy" || (plan.partition == kAutoPartition && found.splits.empty())) {
    found.splits = {galaxy_split(budget, capacities(plan))};
  } else if (plan.partition == kExactPartition) {
    const std::optional<Split> exact = exact_split(budget);
    found.splits = {exact ? *exact : galaxy_split(budget, capacities(plan))};
  } else if (plan.partition != kAutoPartition) {
    found.splits = {proportional_split(plan.model, given_proportions(plan))};
  }
  ShareCandidates candidates{.shares = {}, .memory_binds = found.memory_binds};
  for (const Split& split : found.splits)
    candidates.shares.push_back(to_shares(plan.model, plan.master, split));
  return candidates;
}

ShareCandidates layer_candidates(const Plan& plan, const Budget& budget, Objective objective) {
  ShareCandidates candidates;
  const auto add = [&](const std::vector<std::int64_t>& layers) {
    candidates.shares.push_back(layer_shares(plan.model, stage_order(plan), plan.master, layers));
  };
  const bool chooses = plan.partition == kAutoPartition;
  const bool exact = plan.partition == kExactPartition;
  const bool balances = chooses || exact || plan.partition == "galaxy";
  const std::vector<double> weights = balances ? capacities(plan) : given_proportions(plan);
  std::vector<std::int64_t> first;
  if (balances) first = balanced_layers(budget, weights);
  if (exact) {
    const bool rate = by_rate(plan, objective);
    if (auto shares = rate ? shares_by_rate(budget) : std::nullopt)
      return {.shares = {std::move(*shares)}};
    if (const auto fastest = fastest_layers(budget, weights); fastest && !rate) first = *fastest;
  }
  // Layers that do not fit anywhere are split as well, so that the shortage can be told.
  if (std::accumulate(first.begin(), first.end(), std::int64_t{0}) < plan.model.layers)
    first = proportional_shares(weights, plan.model.layers);
  add(first);
  if (chooses && by_rate(plan, objective)) {
    if (auto shares = shares_by_rate(budget)) candidates.shares.push_back(std::move(*shares));
  }
  if (chooses) {
    add(proportional_shares(std::vector<double>(weights.size(), 1.0), plan.model.layers));
    const auto fastest = fastest_layers(budget, weights);
    if (fastest) add(*fastest);
    const std::int64_t others = static_cast<std::int64_t>(weights.size()) - 1;
    candidates.memory_binds = !fastest || *std::max_element(fastest->begin(), fastest->end()) <
                                              plan.model.layers - others;
  }
  return candidates;
}

}  // namespace

Split master_alone(const Plan& plan) {
  Split split{std::vector<std::int64_t>(plan.profiles.size()),
              std::vector<std::int64_t>(plan.profiles.size())};
  split.heads[static_cast<std::size_t>(plan.master)] = plan.model.heads;
  split.columns[static_cast<std::size_t>(plan.master)] = plan.model.intermediate;
  return split;
}

Shares whole_shares(const Plan& plan) {
  const auto all = [](std::int64_t size) {
    return model::Range{0, static_cast<std::int32_t>(size)};
  };
  Shares shares;
  shares.reserve(plan.cluster.devices().size());
  for (model::DeviceIndex device = 0; device < plan.cluster.size(); ++device) {
    shares.push_back({.layers = all(plan.model.layers),
                      .heads = all(plan.model.heads),
                      .columns = all(plan.model.intermediate),
                      .embedding = device == plan.master,
                      .head = device == plan.master});
  }
  return shares;
}

std::vector<double> given_proportions(const Plan& plan) {
  if (plan.partition == "equal") return std::vector<double>(plan.profiles.size(), 1.0);
  if (plan.partition.find_first_of("0123456789") == std::string::npos) {
    throw Error(
        "partition '" + plan.partition +
        "': unknown, expected auto, galaxy, exact, equal or proportions A:B:C, one a device");
  }
  return parse_proportions(plan.partition, plan.cluster);
}

bool by_rate(const Plan& plan, Objective objective) {
  return objective == Objective::throughput && samples_in_flight(plan) > 1 &&
         std::ranges::none_of(plan.devices, [](const DevicePlan& d) { return d.window.streams(); });
}

ShareCandidates find_shares(const Plan& plan, const Strategy& strategy, const Budget& budget,
                            const SplitTime& streamed, Objective objective) {
  if (strategy.splits) return split_shares(plan, budget, streamed);
  if (strategy.splits_layers) return layer_candidates(plan, budget, objective);
  if (strategy.replicates) return {.shares = {whole_shares(plan)}};
  return {.shares = {to_shares(plan.model, plan.master, master_alone(plan))}};
}

}  // namespace tandem::planner
