#include "planner/partition/galaxy_partition.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "model/base/error.hpp"
#include "planner/partition/exact/largest_remainder.hpp"
#include "planner/partition/proportions.hpp"
#include "planner/strategy/common/block.hpp"

namespace tandem::planner {
namespace {

// Less is no measurement, and capacities must have a finite sum.
constexpr double kLeastSeconds = 1e-100;

double block_seconds(const Plan& plan, const model::CostModel& costs, model::DeviceIndex device,
                     model::Segment segment) {
  model::TaskGraph graph(model::Batch{{segment}});
  DeviceTasks tasks(graph, plan.model, device);
  const std::int32_t layer = plan.model.usual_layer();
  const auto attention =
      tasks.attention(layer, {0, static_cast<std::int32_t>(plan.model.heads)}, -1);
  tasks.ffn(layer, {0, static_cast<std::int32_t>(plan.model.intermediate)}, attention);
  double seconds = 0.0;
  for (const model::Task& task : graph.tasks()) {
    seconds += costs.compute_time(graph.batch(), task).value();
  }
  return seconds;
}

Split balance(const Budget& budget, Split split, std::span<const double> capacities, GroupCut cut) {
  const model::Transformer& transformer = budget.plan().model;
  const std::int64_t unit = column_unit(transformer, split);
  if (budget.fits(split)) return split;
  std::vector<std::int64_t> caps(budget.devices());
  for (std::size_t d = 0; d < caps.size(); ++d) {
    caps[d] = budget.max_columns(d, split.heads[d], cut) / unit;
    split.columns[d] /= unit;
  }
  split.columns = shares_within(split.columns, caps, capacities, transformer.intermediate / unit);
  for (std::int64_t& columns : split.columns) columns *= unit;
  for (std::size_t d = 0; d < caps.size(); ++d) {
    caps[d] = budget.max_heads(d, split.columns[d], cut);
  }
  split.heads = shares_within(split.heads, caps, capacities, transformer.heads);
  return split;
}

}  // namespace

// The recursion as a loop.
std::vector<std::int64_t> shares_within(std::span<const std::int64_t> shares,
                                        std::span<const std::int64_t> caps,
                                        std::span<const double> capacities, std::int64_t total) {
  const std::size_t devices = shares.size();
  std::vector<double> quotas(shares.begin(), shares.end());
  const auto cap = [&](std::size_t d) {
    return static_cast<double>(std::max<std::int64_t>(caps[d], 0));
  };
  std::vector<bool> active(devices, true);
  for (;;) {
    double overflow = 0.0;
    double free_capacity = 0.0;
    for (std::size_t d = 0; d < devices; ++d) {
      if (!active[d]) continue;
      if (quotas[d] > cap(d)) overflow += quotas[d] - cap(d);
      if (quotas[d] < cap(d)) free_capacity += capacities[d];
    }
    if (overflow == 0.0 || free_capacity == 0.0) break;
    for (std::size_t d = 0; d < devices; ++d) {
      if (!active[d]) continue;
      if (quotas[d] > cap(d)) {
        quotas[d] = cap(d);
        active[d] = false;
      } else if (quotas[d] < cap(d)) {
        quotas[d] += overflow * (capacities[d] / free_capacity);
      }
    }
  }
  std::vector<std::int64_t> limits(devices);
  for (std::size_t d = 0; d < devices; ++d) {
    limits[d] = static_cast<std::int64_t>(std::max(cap(d), std::ceil(quotas[d])));
  }
  return largest_remainder(quotas, total, limits);
}

std::vector<double> capacities(const Plan& plan) {
  const model::CostModel costs = plan.cost_model();
  const auto prompt = static_cast<std::int32_t>(plan.workload.prompt_tokens);
  const std::int64_t decodes = plan.workload.steps() - 1;
  std::vector<double> result;
  for (model::DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
    double seconds = block_seconds(plan, costs, d, {.rows = prompt});
    if (decodes > 0) {
      const auto past = static_cast<std::int32_t>(prompt + (decodes - 1) / 2);
      seconds +=
          static_cast<double>(decodes) * block_seconds(plan, costs, d, {.past = past, .rows = 1});
    }
    if (seconds < kLeastSeconds) {
      throw Error("profile of device '" + plan.cluster.devices()[static_cast<std::size_t>(d)].name +
                  "': its blocks of " + plan.model.name +
                  " take no time, expected some; measure the profile again with `tandem profile`");
    }
    result.push_back(1.0 / seconds);
  }
  return result;
}

Split galaxy_split(const Budget& budget, std::span<const double> capacities) {
  const model::Transformer& model = budget.plan().model;
  std::optional<Split> first;
  // What does not fit in larger units may fit in the smallest.
  const std::int64_t least = least_column_unit(model);
  for (const std::int64_t unit : {column_unit(model), least}) {
    const Split balanced{proportional_heads(model, capacities),
                         proportional_shares(capacities, model.intermediate, unit, least)};
    for (const GroupCut cut : {GroupCut::none, GroupCut::worst}) {
      Split split = balance(budget, balanced, capacities, cut);
      if (budget.fits(split)) return split;
      if (!first) first = std::move(split);
    }
  }
  return *first;
}

}  // namespace tandem::planner
