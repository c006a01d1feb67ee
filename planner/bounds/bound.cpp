#include "planner/bounds/bound.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/bounds/bound_costs.hpp"
#include "planner/partition/budget.hpp"
#include "planner/partition/equation5.hpp"
#include "planner/partition/exact/division.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/search/window_search.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/rows.hpp"
#include "planner/strategy/common/stages.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::TaskKind;
using model::WeightBlock;

// Up to so many devices, each device is also bounded separately.
constexpr std::int32_t kFew = 16;

// Problems that differ in the time added for each participating device.
class Halves {
 public:
  Halves(const Plan& plan, const LeastCosts& costs, MostRoom& rooms)
      : unit_(least_column_unit(plan.model)) {
    const model::Transformer& model = plan.model;
    base_ = {.heads = model.heads, .units = model.intermediate / unit_};
    for (DeviceIndex d = 0; d < costs.devices(); ++d) {
      DivisionDevice device;
      std::vector<std::array<std::int64_t, 2>> as_master;
      for (std::int64_t heads = 0; heads <= model.heads; ++heads) {
        const double time = heads > 0 ? costs.attention(d, heads) : 0.0;
        device.heads_s.push_back({time, time});
        const std::int64_t room = rooms.units(d, false, heads, unit_);
        device.room.push_back({room, room});
        const std::int64_t tight = rooms.units(d, true, heads, unit_);
        as_master.push_back({tight, tight});
      }
      device.first_s = costs.ffn(d, unit_);
      if (base_.units > 1)
        device.next_s = (costs.ffn(d, model.intermediate) - device.first_s) /
                        static_cast<double>(base_.units - 1);
      base_.devices.push_back(std::move(device));
      as_master_.push_back(std::move(as_master));
    }
  }

  // Returns the minimum over splits of the slowest device of both halves, where participants are
  // late by `attention` or `ffn` in addition; infinite if nothing fits.
  [[nodiscard]] double least(const std::vector<double>& attention, const std::vector<double>& ffn,
                             std::optional<std::size_t> master) {
    DivisionProblem problem = base_;
    for (std::size_t d = 0; d < problem.devices.size(); ++d) {
      DivisionDevice& device = problem.devices[d];
      for (std::size_t h = 1; h < device.heads_s.size(); ++h)
        for (double& seconds : device.heads_s[h]) seconds += attention[d];
      device.first_s += ffn[d];
    }
    if (master) problem.devices[*master].room = as_master_[*master];
    const auto found = least_stragglers(problem);
    return found ? found->heads_s + found->units_s : kNever;
  }

 private:
  std::int64_t unit_;
  DivisionProblem base_;
  std::vector<std::vector<std::array<std::int64_t, 2>>> as_master_{};
};

// Two halves a layer that end with a sum which all must have.
double tensor_bound(const Plan& plan, const LeastCosts& costs, MostRoom& rooms) {
  const std::int32_t devices = costs.devices();
  Halves halves(plan, costs, rooms);
  const auto layers = static_cast<double>(plan.model.layers);
  const auto each = [&](const auto& seconds) {
    std::vector<double> all;
    all.reserve(static_cast<std::size_t>(devices));
    for (DeviceIndex d = 0; d < devices; ++d) all.push_back(seconds(d));
    return all;
  };
  // The first half has nothing to add and, sums spread, nothing to wait for.
  const auto step = [&](const std::vector<double>& first, const std::vector<double>& more,
                        std::optional<std::size_t> master) {
    return halves.least(first, more, master) + (layers - 1.0) * halves.least(more, more, master);
  };
  const std::vector<double> adds = each([&](DeviceIndex d) { return costs.add(d); });
  double least = kNever;
  for (DeviceIndex root = 0; root < devices; ++root) {
    const auto r = static_cast<std::size_t>(root);
    const std::vector<double> ways = each([&](DeviceIndex d) {
      if (d == root) return 0.0;
      return costs.copy(root, TaskKind::capture) + costs.way_in(d) +
             costs.copy(d, TaskKind::deliver) + costs.copy(d, TaskKind::capture) +
             costs.way_out(d) + costs.copy(root, TaskKind::deliver);
    });
    std::vector<double> more = ways;
    for (std::size_t d = 0; d < more.size(); ++d) more[d] += adds[d];
    least = std::min(least, costs.ends(root) + step(ways, more, r) + adds[r]);
  }
  if (devices == 1) return least;
  const std::vector<double> more =
      each([&](DeviceIndex d) { return adds[static_cast<std::size_t>(d)] + costs.any_way(d); });
  const std::vector<double> none(more.size(), 0.0);
  return std::min(least, costs.least_ends() + step(none, more, std::nullopt) +
                             *std::min_element(adds.begin(), adds.end()));
}

// Rows parted, products by tiles: computing and messages may be hidden behind each other, so the
// busier of the two.
double galaxy_bound(const Plan& plan, const LeastCosts& costs, MostRoom& rooms) {
  const model::Transformer& model = plan.model;
  const std::int32_t devices = costs.devices();
  const std::int64_t unit = least_column_unit(model);
  const auto layers = static_cast<double>(model.layers);
  DivisionProblem problem{.heads = model.heads, .units = model.intermediate / unit};
  for (DeviceIndex d = 0; d < devices; ++d) {
    DivisionDevice device;
    for (std::int64_t heads = 0; heads <= model.heads; ++heads) {
      double seconds = 0.0;
      if (heads > 0) {
        const double attends = costs.tasks(
            d, [&](DeviceTasks& t) { t.attend(0, whole_range(costs.rows()), whole_range(heads)); });
        seconds = layers * (costs.tiled(d, WeightBlock::attention, true, heads) + attends +
                            costs.tiled(d, WeightBlock::attention, false, heads));
      }
      device.heads_s.push_back({seconds, seconds});
      const std::int64_t room = rooms.units(d, false, heads, unit);
      device.room.push_back({room, room});
    }
    // In the last layer the second product is only of rows that the result needs.
    const auto columns_s = [&](std::int64_t columns) {
      return layers * costs.tiled(d, WeightBlock::ffn, true, columns) +
             (layers - 1.0) * costs.tiled(d, WeightBlock::ffn, false, columns);
    };
    device.first_s = columns_s(unit);
    if (problem.units > 1)
      device.next_s =
          (columns_s(model.intermediate) - device.first_s) / static_cast<double>(problem.units - 1);
    problem.devices.push_back(std::move(device));
  }
  const double computing = least_straggler_of_both(problem);
  if (devices == 1) return costs.least_ends() + computing;
  // With everybody in both halves each sends all rows once a half on one channel: its partial sums
  // of others' rows, and its own rows. Who is in one half only is sent all rows once a layer.
  double slowest = 0.0;
  double fastest = kNever;
  for (DeviceIndex d = 0; d < devices; ++d) {
    slowest = std::max(slowest, costs.channel(d));
    fastest = std::min(fastest, costs.channel(d));
  }
  // Each row goes from its owner to another device and back, in both halves or in one.
  double far = 0.0;
  double near = kNever;
  for (DeviceIndex d = 0; d < devices; ++d) {
    far = std::max(far, costs.there_and_back(d));
    near = std::min(near, costs.there_and_back(d));
  }
  if (costs.rows() < devices) far = near;
  const double together =
      std::max({computing, (2.0 * layers - 1.0) * slowest, (2.0 * layers - 1.0) * far});
  double apart = std::max({computing, (layers - 1.0) * fastest, (layers - 1.0) * near});
  if (devices <= kFew) {
    apart = kNever;
    for (DeviceIndex device = 0; device < devices; ++device) {
      const auto d = static_cast<std::size_t>(device);
      const double sent =
          (layers - 1.0) * std::max(std::min(costs.channel(device), costs.channel_in(device)),
                                    costs.there_and_back(device));
      DivisionProblem without = problem;
      for (std::size_t h = 1; h < without.devices[d].room.size(); ++h)
        without.devices[d].room[h] = {-1, -1};
      apart = std::min(apart, std::max(sent, least_straggler_of_both(without)));
      without = problem;
      for (auto& room : without.devices[d].room)
        for (std::int64_t& units : room) units = std::min<std::int64_t>(units, 0);
      apart = std::min(apart, std::max(sent, least_straggler_of_both(without)));
    }
  }
  return costs.least_ends() + std::min(together, apart);
}

// Stages in a row, a layer for each, and a message to each of them.
double pipeline_bound(const Plan& plan, const LeastCosts& costs, MostRoom& rooms) {
  const std::int32_t devices = costs.devices();
  std::vector<std::pair<double, std::int64_t>> stages;  // a layer's seconds, the most layers
  double messages = 0.0;
  double longest = 0.0;
  for (DeviceIndex d = 0; d < devices; ++d) {
    stages.emplace_back(costs.attention(d, plan.model.heads) +
                            costs.ffn(d, plan.model.intermediate) + 2.0 * costs.add(d),
                        rooms.layers(d));
    if (devices == 1) continue;
    messages += costs.way_in(d);
    longest = std::max(longest, costs.way_in(d));
  }
  std::sort(stages.begin(), stages.end());
  std::int64_t missing = plan.model.layers - devices;
  double seconds = 0.0;
  for (const auto& [layer, most] : stages) {
    const std::int64_t more =
        std::clamp<std::int64_t>(missing, 0, std::max<std::int64_t>(most, 1) - 1);
    seconds += static_cast<double>(1 + more) * layer;
    missing -= more;
  }
  // The last message has only rows that the result needs.
  return costs.least_ends() + seconds + messages - longest;
}

}  // namespace

double step_bound(const Plan& plan, const model::Batch& batch) {
  const Strategy& strategy = find_strategy(plan.strategy);
  const LeastCosts costs(plan, batch);
  MostRoom rooms(plan);
  const double bound = strategy.sharding.splits_layers() ? pipeline_bound(plan, costs, rooms)
                       : strategy.sharding.splits_rows() && is_prompt(batch)
                           ? galaxy_bound(plan, costs, rooms)
                           : tensor_bound(plan, costs, rooms);
  return std::max(0.0, bound);
}

std::optional<RequestBound> request_bound(const Plan& plan) {
  const Strategy& strategy = find_strategy(plan.strategy);
  if (!strategy.sharding.splits_weights()) return std::nullopt;
  // Groups split layers, which the bound of pipelines assumes to be whole.
  if (strategy.sharding.splits_layers() && has_groups(plan)) return std::nullopt;
  // The bound assumes uniform layers.
  if (!plan.model.has_uniform_layers()) return std::nullopt;
  // And every row of a prompt to attend to all before it.
  if (plan.sparse && plan.sparse->drops()) return std::nullopt;
  RequestBound bound{.planned_s = predicted_request_time(plan)};
  bound.lower_bound_s = step_bound(plan, prompt_batch(plan.workload));
  // A step's time grows with its context as the slowest device of some split, which is convex: all
  // steps together take at least as long as the same number in the middle.
  const std::int64_t decodes = plan.workload.new_tokens - 1;
  if (decodes > 0) {
    const std::int64_t past = plan.workload.prompt_tokens + (decodes - 1) / 2;
    bound.lower_bound_s += static_cast<double>(decodes) *
                           step_bound(plan, decode_batch(static_cast<std::int32_t>(past)));
  }
  // Equation 5 ignores logits and their memory.
  if (!strategy.sharding.splits_heads() || splits_head(plan)) return bound;
  Split split;
  for (const DevicePlan& device : plan.devices) {
    split.heads.push_back(device.share.heads.size());
    split.columns.push_back(device.share.columns.size());
  }
  bound.equation5_s = equation5(plan, split).total();
  Plan outline = plan;
  outline.devices.clear();
  if (may_stream(plan)) {
    std::vector<model::Device> devices = outline.cluster.devices();
    for (model::Device& device : devices) device.memory = model::Bytes{1e18};
    outline.cluster = {outline.cluster.name(), std::move(devices), outline.cluster.routers(),
                       outline.cluster.links(), outline.cluster.edges()};
  }
  bound.equation5_bound_s =
      equation5_bound(Budget(outline, std::vector<double>(plan.cluster.devices().size(), 0.0)));
  return bound;
}

}  // namespace tandem::planner
