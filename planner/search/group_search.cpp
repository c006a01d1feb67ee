#include "planner/search/group_search.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "model/base/error.hpp"
#include "model/base/word_list.hpp"
#include "planner/partition/exact/chain.hpp"
#include "planner/partition/exact/largest_remainder.hpp"
#include "planner/partition/exact/run_splits.hpp"
#include "planner/partition/galaxy_partition.hpp"
#include "planner/search/rate_search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/stages.hpp"
#include "planner/strategy/stage_ring.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::Range;

Groups near_groups(const model::Cluster& cluster, DeviceIndex master) {
  const Proximity near = proximity(cluster, master);
  std::map<std::int32_t, std::vector<DeviceIndex>> by_number;
  for (DeviceIndex device = 0; device < cluster.size(); ++device)
    by_number[near.group[static_cast<std::size_t>(device)]].push_back(device);
  Groups groups;
  for (auto& [number, devices] : by_number) groups.push_back(std::move(devices));
  return groups;
}

// Parts of a whole number in proportion to `weights`, in units as far as these go round.
std::vector<std::int64_t> parts_of(std::int64_t total, std::int64_t unit,
                                   const std::vector<double>& weights) {
  const std::int64_t units = total / unit;
  std::vector<std::int64_t> parts = proportional_shares(weights, units);
  for (std::int64_t& part : parts) part *= unit;
  *std::ranges::max_element(parts) += total - units * unit;
  return parts;
}

// Moves one `unit` to `device` from the largest part of at least two units; false if there is none.
bool take_one(std::vector<std::int64_t>& parts, std::size_t device, std::int64_t unit) {
  const auto most = std::ranges::max_element(parts);
  if (*most < 2 * unit) return false;
  *most -= unit;
  parts[device] += unit;
  return true;
}

// The split of a layer over the devices of each group: heads and columns by index. No device of a
// plan is idle: the weakest have one block of columns, or one head.
struct Parts {
  std::vector<std::vector<std::int64_t>> heads;
  std::vector<std::vector<std::int64_t>> columns;
};

Parts parts_by(const Plan& plan, const Groups& groups, const std::vector<double>& weights) {
  Parts parts;
  const std::int64_t unit = column_unit(plan.model);
  for (const std::vector<DeviceIndex>& group : groups) {
    std::vector<double> of_group;
    of_group.reserve(group.size());
    for (const DeviceIndex device : group)
      of_group.push_back(weights[static_cast<std::size_t>(device)]);
    std::vector<std::int64_t> heads = parts_of(plan.model.heads, 1, of_group);
    std::vector<std::int64_t> columns = parts_of(plan.model.intermediate, unit, of_group);
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (heads[i] + columns[i] == 0 && !take_one(columns, i, unit)) take_one(heads, i, 1);
    }
    parts.heads.push_back(std::move(heads));
    parts.columns.push_back(std::move(columns));
  }
  return parts;
}

// `counts` by group; groups follow one another in `order`.
Shares shares_of(const Plan& plan, const Groups& groups, const Parts& parts,
                 const std::vector<std::int64_t>& counts, const std::vector<std::size_t>& order) {
  Shares shares(plan.profiles.size());
  std::int32_t next = 0;
  for (const std::size_t g : order) {
    const Range layers{next, next + static_cast<std::int32_t>(counts[g])};
    next = layers.end;
    std::int32_t head = 0;
    std::int32_t column = 0;
    for (std::size_t i = 0; i < groups[g].size(); ++i) {
      model::Share& share = shares[static_cast<std::size_t>(groups[g][i])];
      const auto heads = static_cast<std::int32_t>(parts.heads[g][i]);
      const auto columns = static_cast<std::int32_t>(parts.columns[g][i]);
      share.heads = {head, head + heads};
      share.columns = {column, column + columns};
      if (heads + columns > 0) share.layers = layers;
      head += heads;
      column += columns;
    }
  }
  model::Share& master = shares[static_cast<std::size_t>(plan.master)];
  master.embedding = master.head = true;
  return shares;
}

std::vector<std::size_t> as_given(const Groups& groups) {
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

// So many layers for every group, of a model that has no more.
Plan group_probe(const Plan& outline, const Groups& groups, const Parts& parts,
                 std::int64_t layers) {
  const std::vector<std::int64_t> counts(groups.size(), layers);
  Plan plan = outline;
  plan.model = plan.model.first_layers(layers * static_cast<std::int64_t>(groups.size()));
  plan.devices.clear();
  for (model::Share& share : shares_of(plan, groups, parts, counts, as_given(groups)))
    plan.devices.push_back({.share = std::move(share), .memory = {}});
  return plan;
}

// By where a run of layers begins: where the longest that all devices of the group hold ends.
std::vector<std::int32_t> ends_of(const Plan& plan, const Budget& budget, const Groups& groups,
                                  const Parts& parts, std::size_t g) {
  const std::vector<std::int64_t> one(groups.size(), 1);
  const Shares shares = shares_of(plan, groups, parts, one, as_given(groups));
  return run_ends(plan.model.layers, [&](Range run) {
    return std::ranges::all_of(groups[g], [&](DeviceIndex device) {
      const auto d = static_cast<std::size_t>(device);
      model::Share share = shares[d];
      if (!share.layers.empty()) share.layers = run;
      return budget.use(d, share).total() <= budget.bytes(d);
    });
  });
}

StageChain chain_of(const Plan& plan, const Budget& budget, const Groups& groups,
                    const Parts& parts, std::int64_t samples) {
  const auto of_layers = [&](const Plan& outline, std::int64_t layers) {
    return group_probe(outline, groups, parts, layers);
  };
  const StageTimes times = stage_times(plan, static_cast<std::int64_t>(groups.size()), of_layers);
  const std::vector<Stage> made = stages(times.one);
  StageChain chain{.problem = {.layers = plan.model.layers, .samples = samples}};
  ChainProblem& problem = chain.problem;
  const auto messages = static_cast<double>(plan.workload.steps());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<std::int32_t> ends = ends_of(plan, budget, groups, parts, g);
    problem.devices.push_back({.fixed_s = times.fixed_s[g],
                               .layer_s = mean_seconds(times.layer_s[g]),
                               .most = longest_run(ends)});
    if (!plan.model.has_uniform_layers())
      chain.stages.push_back(
          {.fixed_s = times.fixed_s[g], .layer_s = times.layer_s[g], .ends = ends});
    std::vector<ChainMessage>& row = problem.messages.emplace_back(groups.size());
    const auto route = [&](std::size_t to) -> const model::Route& {
      return plan.cluster.route(made[g].root, made[to].root);
    };
    const double bytes = groups.size() < 2 ? 0.0
                                           : times.ring.stages[g].wire_s *
                                                 route((g + 1) % groups.size()).bandwidth.value();
    for (std::size_t to = 0; to < groups.size(); ++to) {
      if (to == g) continue;
      row[to] = {.channel_s = times.ring.stages[g].overhead_s + bytes / route(to).bandwidth.value(),
                 .latency_s = messages * route(to).latency.value()};
    }
  }
  return chain;
}

}  // namespace

Groups parse_groups(std::string_view text, const model::Cluster& cluster, DeviceIndex master) {
  Groups groups;
  if (text == "auto") {
    groups = near_groups(cluster, master);
  } else {
    std::vector<bool> seen(cluster.devices().size(), false);
    for (const std::string& part : model::split_list(text, '/')) {
      std::vector<DeviceIndex>& group = groups.emplace_back();
      for (const std::string& name : model::split_list(part)) {
        const DeviceIndex device = cluster.find(name);
        if (seen[static_cast<std::size_t>(device)]) {
          throw Error("groups '" + std::string(text) + "': device '" + name +
                      "' is there twice, expected every device once");
        }
        seen[static_cast<std::size_t>(device)] = true;
        group.push_back(device);
      }
      std::ranges::sort(group);
    }
    for (std::size_t d = 0; d < seen.size(); ++d) {
      if (seen[d]) continue;
      throw Error("groups '" + std::string(text) + "': device '" + cluster.devices()[d].name +
                  "' is in none, expected every device of the platform once");
    }
  }
  std::stable_partition(groups.begin(), groups.end(),
                        [master](const std::vector<DeviceIndex>& group) {
                          return std::ranges::find(group, master) != group.end();
                        });
  return groups;
}

std::string to_text(const Groups& groups, const model::Cluster& cluster) {
  std::string text;
  for (const std::vector<DeviceIndex>& group : groups) {
    text += text.empty() ? "" : "/";
    for (const DeviceIndex device : group)
      text += (device == group.front() ? "" : ",") +
              cluster.devices()[static_cast<std::size_t>(device)].name;
  }
  return text;
}

bool has_group(const Groups& groups) {
  return std::ranges::any_of(groups, [](const auto& group) { return group.size() > 1; });
}

Shares even_group_shares(const Plan& plan, const Groups& groups) {
  const std::vector<double> even(plan.profiles.size(), 1.0);
  return shares_of(plan, groups, parts_by(plan, groups, even),
                   proportional_shares(std::vector<double>(groups.size(), 1.0), plan.model.layers),
                   as_given(groups));
}

GroupCandidates group_candidates(const Plan& plan, const Groups& groups, const Budget& budget,
                                 const Request& request) {
  const std::vector<double> even(plan.profiles.size(), 1.0);
  if (plan.partition == "equal") return {.shares = {even_group_shares(plan, groups)}, .first = {}};
  if (plan.partition != kAutoPartition) {
    throw Error("partition '" + plan.partition +
                "': expected auto or equal with groups, whose layers and shares are searched "
                "together; leave it out");
  }
  std::vector<double> memory;
  for (std::size_t d = 0; d < budget.devices(); ++d) memory.push_back(budget.bytes(d));
  GroupCandidates found{.shares = {}, .first = even_group_shares(plan, groups)};
  const std::int64_t samples =
      request.objective == Objective::throughput ? samples_in_flight(plan) : 1;
  for (const std::vector<double>& weights : {capacities(plan), even, memory}) {
    const Parts parts = parts_by(plan, groups, weights);
    const StageChain chain = chain_of(plan, budget, groups, parts, samples);
    for (const LayerAssignment& deal : layer_assignments(chain))
      found.shares.push_back(shares_of(plan, groups, parts, deal.layers, deal.order));
  }
  return found;
}

}  // namespace tandem::planner
