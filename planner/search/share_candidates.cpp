#include "planner/search/share_candidates.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "model/base/error.hpp"
#include "planner/partition/equation5.hpp"
#include "planner/partition/exact/largest_remainder.hpp"
#include "planner/partition/exact/streamed_layers.hpp"
#include "planner/partition/galaxy_partition.hpp"
#include "planner/partition/layer_partition.hpp"
#include "planner/partition/proportions.hpp"
#include "planner/search/rate_search.hpp"
#include "planner/strategy/common/positions.hpp"
#include "planner/strategy/common/rows.hpp"
#include "planner/strategy/pipeline.hpp"
#include "planner/strategy/stage_ring.hpp"

namespace tandem::planner {
namespace {

ShareCandidates split_shares(const Plan& plan, const Budget& budget, const SplitTime& streamed) {
  SplitCandidates found;
  if (plan.partition == kAutoPartition) {
    found = split_candidates(budget, streamed);
    // The others may fit no longer once their key/value heads are whole.
    if (head_unit(plan) > 1) {
      if (std::optional<Split> exact = exact_split(budget))
        found.splits.push_back(*std::move(exact));
    }
    // If rows are split as well, the search may end where no device has both heads and columns.
    const auto fits = [&](const Split& split) { return budget.fits(split); };
    if (head_unit(plan) == 1 && sharding_of(plan).splits_rows() &&
        std::ranges::none_of(found.splits, fits)) {
      if (std::optional<Split> exact = exact_split(budget)) found.splits = {*std::move(exact)};
    }
  }
  // What does not fit is split as well, so that the shortage can be reported.
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

// Returns, by device, the times of a whole request's layers on devices whose weights may stream.
std::vector<StreamingDevice> streaming_devices(const Plan& plan, const Budget& budget) {
  const ChainProblem chain = stage_chain(budget).problem;
  const std::vector<model::DeviceIndex> order = stage_order(plan);
  const model::Range heads{0, static_cast<std::int32_t>(plan.model.heads)};
  const model::Range columns{0, static_cast<std::int32_t>(plan.model.intermediate)};
  double bytes = 0.0;  // of a layer, on average
  for (std::int32_t layer = 0; layer < plan.model.layers; ++layer)
    bytes += static_cast<double>(plan.model.attention_bytes(layer, heads) +
                                 plan.model.ffn_bytes(layer, columns));
  bytes /= static_cast<double>(plan.model.layers);
  std::vector<StreamingDevice> devices(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto d = static_cast<std::size_t>(order[i]);
    const double disk = plan.cluster.devices()[d].disk_bandwidth.value();
    const std::int64_t kept = most_layers(budget, d, Window{});
    devices[d] = {
        .layer_s = chain.devices[i].layer_s,
        .load_s = disk > 0.0 ? static_cast<double>(plan.workload.steps()) * bytes / disk : 0.0,
        .resident = kept,
        .most = disk > 0.0 ? std::max(kept, chain.devices[i].most) : kept};
  }
  return devices;
}

ShareCandidates layer_candidates(const Plan& plan, const Budget& budget, const Request& request) {
  const std::int32_t rounds = request.rounds.value_or(1);
  ShareCandidates candidates;
  const auto add = [&](const std::vector<std::int64_t>& layers) {
    candidates.shares.push_back(
        layer_shares(plan.model, stage_order(plan), plan.master, layers, rounds));
  };
  const bool chooses = plan.partition == kAutoPartition;
  const bool exact = plan.partition == kExactPartition;
  const bool halda = plan.partition == kHaldaPartition;
  const bool balances = chooses || exact || halda || plan.partition == "galaxy";
  const std::vector<double> weights = balances ? capacities(plan) : given_proportions(plan);
  const bool rate = by_rate(plan, request.objective);
  // If layers differ.
  std::optional<std::vector<std::int64_t>> runs;
  if ((chooses || exact) && rounds == 1 && !plan.model.has_uniform_layers())
    runs = fastest_runs(budget, rate ? samples_in_flight(plan) : 1);
  std::vector<std::int64_t> first;
  if (balances) first = balanced_layers(budget, weights);
  if (exact) {
    if (auto shares = rate ? shares_by_rate(budget) : std::nullopt)
      return {.shares = {std::move(*shares)}};
    const auto fastest = runs ? runs : fastest_layers(budget, weights);
    if (fastest && (runs || !rate)) first = *fastest;
  }
  if (halda) {
    if (plan.model.layers % rounds != 0) {
      throw Error("partition 'halda' with " + std::to_string(rounds) +
                  " rounds: expected a divisor "
                  "of the " +
                  std::to_string(plan.model.layers) + " layers of " + plan.model.name +
                  ", as each round has as many; give other '--rounds', or --partition auto");
    }
    const auto layers = halda_layers(streaming_devices(plan, budget), plan.model.layers, rounds);
    if (layers) first = *layers;
  }
  // Layers that do not fit anywhere are split as well, so that the shortage can be reported.
  if (std::accumulate(first.begin(), first.end(), std::int64_t{0}) < plan.model.layers)
    first = proportional_shares(weights, plan.model.layers);
  add(first);
  if (chooses && runs) add(*runs);
  if (chooses && rate) {
    if (auto shares = shares_by_rate(budget)) candidates.shares.push_back(std::move(*shares));
  }
  if (chooses) {
    add(proportional_shares(std::vector<double>(weights.size(), 1.0), plan.model.layers));
    const auto fastest = fastest_layers(budget, weights);
    if (fastest) add(*fastest);
    const auto streams = [&](std::size_t d) { return budget.window(d).streams(); };
    bool streamed = false;
    for (std::size_t d = 0; d < budget.devices(); ++d) streamed = streamed || streams(d);
    if (streamed) {
      const std::vector<StreamingDevice> devices = streaming_devices(plan, budget);
      if (const auto layers = overlapped_layers(devices, plan.model.layers)) add(*layers);
      if (const auto layers = halda_layers(devices, plan.model.layers, 1)) add(*layers);
    }
    const std::int64_t others = static_cast<std::int64_t>(weights.size()) - 1;
    candidates.memory_binds = !fastest || *std::max_element(fastest->begin(), fastest->end()) <
                                              plan.model.layers - others;
  }
  return candidates;
}

// Those of two searches that know of heads, columns and layers only.
void refuse_searched_shares(const Plan& plan) {
  if (plan.partition != kExactPartition && plan.partition != kHaldaPartition) return;
  throw Error("partition '" + plan.partition + "' with strategy '" + plan.strategy +
              "': expected auto, galaxy, equal or proportions A:B:C, one a device");
}

// Shares as `tensor` has them, and those that split rows best: by speed, and equally.
ShareCandidates gathering_candidates(const Plan& plan, const Budget& budget) {
  ShareCandidates candidates = split_shares(plan, budget, {});
  if (plan.partition != kAutoPartition) return candidates;
  const std::vector<double> equal(plan.profiles.size(), 1.0);
  candidates.shares.push_back(shares_in_parts(plan, capacities(plan)));
  candidates.shares.push_back(shares_in_parts(plan, equal));
  return candidates;
}

// Whole shares, of which each device computes a part. Memory does not limit parts.
ShareCandidates part_candidates(const Plan& plan) {
  const std::vector<double> equal(plan.profiles.size(), 1.0);
  if (plan.partition == kAutoPartition) {
    return {.shares = {shares_in_parts(plan, capacities(plan)), shares_in_parts(plan, equal)}};
  }
  if (plan.partition == "galaxy") return {.shares = {shares_in_parts(plan, capacities(plan))}};
  refuse_searched_shares(plan);
  return {.shares = {shares_in_parts(plan, given_proportions(plan))}};
}

// The most positions of the prompt that each device has room for, wherever they begin: one that is
// not last may lose a block of them to where it begins.
std::vector<std::int64_t> most_positions(const Plan& plan, const Budget& budget) {
  const auto prompt = static_cast<std::int32_t>(plan.workload.prompt_tokens);
  const model::DeviceIndex last = position_order(plan).back();
  Shares shares = whole_shares(plan);
  std::vector<std::int64_t> most;
  most.reserve(shares.size());
  for (std::size_t d = 0; d < shares.size(); ++d) {
    const bool goes_on = static_cast<model::DeviceIndex>(d) == last;
    const auto fits = [&](std::int32_t count) {
      const std::int32_t begin =
          goes_on ? prompt - count
                  : std::min(prompt - 1 - count, static_cast<std::int32_t>(model::kCacheBlock) - 1);
      shares[d].part.positions = {begin, begin + count};
      return budget.use(d, shares[d]).total() <= budget.bytes(d);
    };
    std::int32_t good = 0;
    for (std::int32_t bad = goes_on ? prompt + 1 : prompt; bad - good > 1;) {
      const std::int32_t middle = good + (bad - good) / 2;
      (fits(middle) ? good : bad) = middle;
    }
    most.push_back(good);
  }
  return most;
}

// Whole shares, with each device caching some positions of the prompt.
ShareCandidates position_candidates(const Plan& plan, const Budget& budget) {
  const bool chooses = plan.partition == kAutoPartition;
  if (!chooses && plan.partition != "galaxy") {
    refuse_searched_shares(plan);
    return {.shares = {
                shares_by_position(plan, positions_in_proportion(plan, given_proportions(plan)))}};
  }
  if (!splits_prompt(plan)) return {.shares = {uniform_shares(plan, find_strategy(plan.strategy))}};
  const std::vector<double> speeds = capacities(plan);
  const std::vector<std::int64_t> most = most_positions(plan, budget);
  ShareCandidates candidates;
  const auto add = [&](const std::vector<std::int64_t>& counts) {
    candidates.shares.push_back(
        shares_by_position(plan, shares_within(counts, most, speeds, plan.workload.prompt_tokens)));
  };
  add(positions_in_proportion(plan, speeds));
  if (!chooses) return candidates;
  if (plan.model.architecture().mask == model::Mask::causal) add(positions_by_prompt_work(plan));
  add(positions_in_proportion(plan, std::vector<double>(speeds.size(), 1.0)));
  return candidates;
}

}  // namespace

Shares shares_in_parts(const Plan& plan, std::span<const double> proportions) {
  const Split split = proportional_split(plan.model, proportions);
  if (plan.gather_weights) return to_shares(plan.model, plan.master, split);
  Shares shares = whole_shares(plan);
  std::int32_t head = 0;
  std::int32_t column = 0;
  for (std::size_t d = 0; d < shares.size(); ++d) {
    const auto heads = static_cast<std::int32_t>(split.heads[d]);
    const auto columns = static_cast<std::int32_t>(split.columns[d]);
    shares[d].part = {.heads = {head, head + heads}, .columns = {column, column + columns}};
    head += heads;
    column += columns;
  }
  return shares;
}

Shares shares_by_position(const Plan& plan, std::span<const std::int64_t> counts) {
  Shares shares = whole_shares(plan);
  std::int32_t begin = 0;
  for (const model::DeviceIndex device : position_order(plan)) {
    const auto d = static_cast<std::size_t>(device);
    const auto count = static_cast<std::int32_t>(counts[d]);
    if (count > 0) shares[d].part.positions = {begin, begin + count};
    begin += count;
  }
  return shares;
}

Split master_alone(const Plan& plan) {
  Split split{std::vector<std::int64_t>(plan.profiles.size()),
              std::vector<std::int64_t>(plan.profiles.size())};
  split.heads[static_cast<std::size_t>(plan.master)] = plan.model.heads;
  split.columns[static_cast<std::size_t>(plan.master)] = plan.model.intermediate;
  return split;
}

Shares whole_shares(const Plan& plan) {
  Shares shares;
  shares.reserve(plan.cluster.devices().size());
  for (model::DeviceIndex device = 0; device < plan.cluster.size(); ++device) {
    shares.push_back({.layers = whole_range(plan.model.layers),
                      .heads = whole_range(plan.model.heads),
                      .columns = whole_range(plan.model.intermediate),
                      .embedding = device == plan.master,
                      .head = device == plan.master});
  }
  return shares;
}

Shares uniform_shares(const Plan& plan, const Strategy& strategy) {
  const std::vector<double> equal(plan.profiles.size(), 1.0);
  if (strategy.sharding.divides_work()) return shares_in_parts(plan, equal);
  if (strategy.sharding.splits_positions())
    return shares_by_position(plan, positions_in_proportion(plan, equal));
  return whole_shares(plan);
}

std::vector<double> given_proportions(const Plan& plan) {
  if (plan.partition == "equal") return std::vector<double>(plan.profiles.size(), 1.0);
  if (plan.partition.find_first_of("0123456789") == std::string::npos) {
    throw Error("partition '" + plan.partition +
                "': unknown, expected auto, galaxy, exact, halda (of layers), equal or proportions "
                "A:B:C, one a device");
  }
  return parse_proportions(plan.partition, plan.cluster);
}

bool by_rate(const Plan& plan, Objective objective) {
  return objective == Objective::throughput && samples_in_flight(plan) > 1 && !plan.streams();
}

ShareCandidates find_shares(const Plan& plan, const Strategy& strategy, const Budget& budget,
                            const SplitTime& streamed, const Request& request) {
  if (strategy.sharding.splits_heads()) return split_shares(plan, budget, streamed);
  if (strategy.sharding.splits_layers()) return layer_candidates(plan, budget, request);
  if (plan.gather_weights) return gathering_candidates(plan, budget);
  if (strategy.sharding.divides_work()) return part_candidates(plan);
  if (strategy.sharding.splits_positions()) return position_candidates(plan, budget);
  if (strategy.sharding.replicates()) return {.shares = {whole_shares(plan)}};
  return {.shares = {to_shares(plan.model, plan.master, master_alone(plan))}};
}

bool is_searched(const std::string& partition) {
  return partition == kAutoPartition || partition == kExactPartition || partition == "galaxy";
}

void take_whole_kv_heads(const model::Transformer& model, Shares& shares) {
  const auto group = static_cast<std::int32_t>(model.group());
  std::int32_t begin = 0;
  for (model::Share& share : shares) {
    const std::int32_t end = share.heads.empty()
                                 ? begin
                                 : std::max(begin, (share.heads.end + group / 2) / group * group);
    share.heads = {begin, end};
    begin = end;
  }
}

}  // namespace tandem::planner
