#include "planner/strategy/common/positions.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "model/base/error.hpp"
#include "planner/collective/collective.hpp"
#include "planner/partition/exact/largest_remainder.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/cover.hpp"
#include "planner/strategy/common/rows.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::Range;
using model::Task;
using model::TaskIndex;

DeviceIndex device_with_room(const Plan& plan) {
  DeviceIndex most = plan.master;
  if (plan.decode_moves == DecodeMoves::keys_once) return most;
  const std::vector<model::Device>& devices = plan.cluster.devices();
  for (DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
    if (devices[static_cast<std::size_t>(d)].memory.value() >
        devices[static_cast<std::size_t>(most)].memory.value())
      most = d;
  }
  return most;
}

struct RowSeconds {
  double without_keys = 0.0;  // of a row, attention apart
  double key = 0.0;           // of a row that attends a key
};

// For one layer of the plan's prompt.
RowSeconds row_seconds(const Plan& plan, DeviceIndex device) {
  const model::CostModel costs = plan.cost_model();
  const auto rows = static_cast<std::int32_t>(plan.workload.prompt_tokens);
  model::TaskGraph graph(model::Batch{{{.rows = rows}}});
  DeviceTasks tasks(graph, plan.model, device);
  const TaskIndex attended = tasks.attention(0, whole_range(plan.model.heads), -1);
  tasks.ffn(0, whole_range(plan.model.intermediate), attended);
  RowSeconds seconds;
  for (const Task& task : graph.tasks()) {
    (task.kind == model::TaskKind::attend ? seconds.key : seconds.without_keys) +=
        costs.compute_time(graph.batch(), task).value();
  }
  seconds.without_keys /= rows;
  seconds.key /= rows * (rows + 1.0) / 2.0;
  return seconds;
}

}  // namespace

std::vector<PositionPart> position_parts(const Plan& plan) {
  std::vector<PositionPart> parts;
  parts.reserve(plan.devices.size());
  for (std::size_t d = 0; d < plan.devices.size(); ++d)
    parts.push_back({static_cast<DeviceIndex>(d), plan.devices[d].share.part.positions});
  std::ranges::stable_sort(parts, {}, [](const PositionPart& part) { return part.positions.end; });
  parts.back().positions.end = model::kCausal.end;
  return parts;
}

std::vector<std::int64_t> block_ends(std::int64_t blocks, std::span<const std::int64_t> weights) {
  const std::int64_t all = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
  std::vector<std::int64_t> ends;
  ends.reserve(weights.size());
  std::int64_t before = 0;
  for (const std::int64_t weight : weights) {
    before += weight;
    ends.push_back(blocks * before / all);
  }
  return ends;
}

std::vector<PositionPart> sequence_parts(const Plan& plan, std::int64_t positions) {
  std::vector<PositionPart> parts = position_parts(plan);
  std::vector<std::int64_t> weights;
  weights.reserve(parts.size());
  for (const PositionPart& part : parts)
    weights.push_back(
        plan.devices[static_cast<std::size_t>(part.device)].share.part.positions.size());
  const std::vector<std::int64_t> ends = block_ends(model::cache_blocks(positions), weights);
  std::int32_t begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].positions = {begin, static_cast<std::int32_t>(ends[i] * model::kCacheBlock)};
    begin = parts[i].positions.end;
  }
  parts.back().positions.end = model::kCausal.end;
  return parts;
}

std::int64_t served_blocks(const Plan& plan, Range kept) {
  if (kept.empty()) return 1;  // 0 would be those of all positions
  const std::int64_t all = model::cache_blocks(plan.reserved().positions);
  const std::int64_t prompt = plan.workload.prompt_tokens;
  const std::int64_t own = (all * kept.size() + prompt - 1) / prompt;
  return std::min(all, own + model::cache_blocks(plan.workload.positions()));
}

void check_positions(const Plan& plan) {
  const std::vector<PositionPart> parts = position_parts(plan);
  std::int32_t next = 0;
  for (const PositionPart& part : parts) {
    const auto d = static_cast<std::size_t>(part.device);
    const Range kept = plan.devices[d].share.part.positions;
    if (kept.empty()) continue;
    if (kept.begin != next) {
      fail_share(plan, part.device,
                 "keeps positions [" + std::to_string(kept.begin) + ", " +
                     std::to_string(kept.end) + ") of the prompt: expected them to begin at " +
                     std::to_string(next) + ", where the part before ends");
    }
    next = kept.end;
  }
  if (plan.decode_moves == DecodeMoves::keys_once && parts.back().device != plan.master) {
    fail_share(plan, parts.back().device,
               "keeps the prompt's last positions: expected the master to, to which the others' "
               "keys and values go ('decode_moves' migrate)");
  }
  if (next == plan.workload.prompt_tokens) return;
  throw Error("plan: positions that devices keep end at " + std::to_string(next) +
              ": expected all " + std::to_string(plan.workload.prompt_tokens) +
              " of the prompt; make the plan again with `tandem plan`");
}

std::vector<DeviceIndex> position_order(const Plan& plan) {
  // A plan whose collectives are still to be chosen has no layout.
  const bool laid_out = !plan.layout.order.empty();
  const Ranking ranks =
      ranking(laid_out ? plan.layout : wiring(plan.cluster, plan.master),
              std::vector<bool>(plan.cluster.devices().size(), true),
              parse_allreduce(laid_out ? plan.allreduce.prompt : std::string("star")));
  std::vector<DeviceIndex> devices = ranks.devices;
  const auto last = std::ranges::find(devices, device_with_room(plan));
  require(last != devices.end(), "positions: every device has a rank");
  std::rotate(last, last + 1, devices.end());
  return devices;
}

bool splits_prompt(const Plan& plan) {
  return plan.workload.prompt_tokens >= std::int64_t{2} * plan.cluster.size();
}

std::vector<std::int64_t> positions_in_proportion(const Plan& plan,
                                                  const std::vector<double>& weights) {
  const std::vector<DeviceIndex> order = position_order(plan);
  std::vector<std::int64_t> counts(order.size());
  const std::int64_t prompt = plan.workload.prompt_tokens;
  if (!splits_prompt(plan)) {
    counts[static_cast<std::size_t>(order.back())] = prompt;
    return counts;
  }
  std::vector<double> ordered;
  ordered.reserve(order.size());
  for (const DeviceIndex device : order)
    ordered.push_back(weights[static_cast<std::size_t>(device)]);
  const std::vector<std::int64_t> sizes = proportional_shares(ordered, prompt);
  for (std::size_t i = 0; i < order.size(); ++i)
    counts[static_cast<std::size_t>(order[i])] = sizes[i];
  return counts;
}

std::vector<std::int64_t> positions_by_prompt_work(const Plan& plan) {
  const auto prompt = static_cast<double>(plan.workload.prompt_tokens);
  const std::vector<DeviceIndex> order = position_order(plan);
  std::vector<RowSeconds> seconds;
  seconds.reserve(order.size());
  for (const DeviceIndex device : order) seconds.push_back(row_seconds(plan, device));
  // Returns the positions of each part if it takes no longer than `limit`.
  const auto within = [&](double limit) {
    std::vector<double> sizes;
    sizes.reserve(seconds.size());
    double left = prompt;
    for (const RowSeconds& of : seconds) {
      const double linear = of.without_keys + of.key * left;
      const double square = linear * linear - 2.0 * of.key * limit;
      double size = square <= 0.0 ? left : 2.0 * limit / (linear + std::sqrt(square));
      size = std::min(size, left);
      sizes.push_back(size);
      left -= size;
    }
    sizes.back() += left;
    return std::pair{sizes, left};
  };
  double low = 0.0;
  double high = 1.0;
  while (within(high).second > 0.0) high *= 2.0;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = low + (high - low) / 2.0;
    (within(middle).second > 0.0 ? low : high) = middle;
  }
  std::vector<double> weights(order.size());
  const std::vector<double> sizes = within(high).first;
  for (std::size_t i = 0; i < order.size(); ++i)
    weights[static_cast<std::size_t>(order[i])] = sizes[i];
  return positions_in_proportion(plan, weights);
}

}  // namespace tandem::planner
