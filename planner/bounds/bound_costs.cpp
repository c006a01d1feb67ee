#include "planner/bounds/bound_costs.hpp"

#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/layer_partition.hpp"
#include "planner/strategy/common/head.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::TaskKind;
using model::WeightBlock;

std::size_t place(DeviceIndex device, WeightBlock block, bool first) {
  return static_cast<std::size_t>(device) * 4 + (block == WeightBlock::attention ? 0U : 2U) +
         (first ? 0U : 1U);
}

}  // namespace

bool may_stream(const Plan& plan) {
  return sharding_of(plan).may_stream() &&
         std::ranges::any_of(plan.cluster.devices(), [](const model::Device& device) {
           return device.disk_bandwidth.value() > 0.0;
         });
}

LeastCosts::LeastCosts(const Plan& plan, const model::Batch& batch)
    : plan_(&plan),
      costs_(plan.cost_model()),
      batch_(batch),
      message_({.kind = TaskKind::transfer,
                .lane = model::LaneKind::channel,
                .wire = plan.wire,
                .rows = {0, batch.rows()},
                .columns = hidden_columns(plan.model)}),
      bytes_(static_cast<double>(payload_bytes(message_))) {
  if (!sharding_of(plan).exchanges_rows() || batch.rows() < 2) return;
  for (DeviceIndex d = 0; d < devices(); ++d) {
    for (const WeightBlock block : {WeightBlock::attention, WeightBlock::ffn}) {
      for (const bool first : {true, false}) parts_.push_back(best_part(d, block, first));
    }
  }
}

double LeastCosts::sum(const model::TaskGraph& graph) const {
  double seconds = 0.0;
  for (const model::Task& task : graph.tasks())
    seconds += costs_.compute_time(graph.batch(), task).value();
  return seconds;
}

double LeastCosts::attention(DeviceIndex device, std::int64_t heads) const {
  return tasks(device, [&](DeviceTasks& t) { t.attention(0, whole_range(heads), -1); });
}

double LeastCosts::ffn(DeviceIndex device, std::int64_t columns) const {
  return tasks(device, [&](DeviceTasks& t) { t.ffn(0, whole_range(columns), -1); });
}

double LeastCosts::add(DeviceIndex device) const {
  return tasks(device,
               [&](DeviceTasks& t) { t.add_rows(WeightBlock::ffn, 0, whole_range(rows()), {}); });
}

double LeastCosts::ends(DeviceIndex device) const {
  return tasks(device, [&](DeviceTasks& t) {
    t.embed();
    if (!splits_head(*plan_)) {
      t.finish(-1);
      return;
    }
    // Logits may be anybody's.
    const std::vector<model::Range> runs = sampled_runs(batch_);
    for (const model::Range run : runs) t.norm_rows(WeightBlock::head, -1, run);
    t.sample(runs, -1);
  });
}

double LeastCosts::least_ends() const {
  double least = kNever;
  for (DeviceIndex d = 0; d < devices(); ++d) least = std::min(least, ends(d));
  return least;
}

double LeastCosts::copy(DeviceIndex device, TaskKind kind) const {
  return costs_.copy_time(device, kind, copy_size(kind, message_), false).value();
}

double LeastCosts::any_way(DeviceIndex device) const {
  double latency = kNever;
  double wire = kNever;
  for (DeviceIndex other = 0; other < devices(); ++other) {
    if (other == device) continue;
    for (const auto& [from, to] : {std::pair(other, device), std::pair(device, other)}) {
      const model::Route& route = plan_->cluster.route(from, to);
      latency = std::min(latency, route.latency.value());
      wire = std::min(wire, bytes_ / route.bandwidth.value());
    }
  }
  return latency + wire;
}

double LeastCosts::there_and_back(DeviceIndex device) const {
  double least = kNever;
  for (DeviceIndex other = 0; other < devices(); ++other) {
    if (other == device) continue;
    const model::Route& there = plan_->cluster.route(device, other);
    const model::Route& back = plan_->cluster.route(other, device);
    least = std::min(least, there.latency.value() + back.latency.value() +
                                bytes_ / rows() *
                                    (1.0 / there.bandwidth.value() + 1.0 / back.bandwidth.value()));
  }
  return least;
}

double LeastCosts::channel(DeviceIndex device) const {
  double wire = kNever;
  for (DeviceIndex other = 0; other < devices(); ++other) {
    if (other != device)
      wire = std::min(wire, bytes_ / plan_->cluster.route(device, other).bandwidth.value());
  }
  return wire;
}

double LeastCosts::channel_in(DeviceIndex device) const {
  double wire = kNever;
  for (DeviceIndex other = 0; other < devices(); ++other) {
    if (other != device)
      wire = std::min(wire, bytes_ / plan_->cluster.route(other, device).bandwidth.value());
  }
  return wire;
}

double LeastCosts::tiled(DeviceIndex device, WeightBlock block, bool first,
                         std::int64_t columns) const {
  return overhead(device, block, first) +
         parts_.at(place(device, block, first)) * product(device, block, first, rows(), columns);
}

double LeastCosts::overhead(DeviceIndex device, WeightBlock block, bool first) const {
  const bool attention = block == WeightBlock::attention;
  const TaskKind kind = attention ? (first ? TaskKind::project_qkv : TaskKind::project_out)
                                  : (first ? TaskKind::ffn_up : TaskKind::ffn_down);
  const model::WeightMatrix matrix =
      attention ? (first ? model::WeightMatrix::query : model::WeightMatrix::out)
      : !first  ? model::WeightMatrix::down
      : plan_->model.architecture().gated ? model::WeightMatrix::gate
                                          : model::WeightMatrix::up;
  const model::KindRate* const rate = plan_->profiles[static_cast<std::size_t>(device)].rate_of(
      kind, plan_->model.format_of(matrix, 0));
  return rate == nullptr ? 0.0 : rate->overhead_s;
}

double LeastCosts::product(DeviceIndex device, WeightBlock block, bool first, std::int32_t rows,
                           std::int64_t columns) const {
  const double seconds = tasks(device, [&](DeviceTasks& t) {
    if (first) {
      t.first_product(block, 0, whole_range(rows), whole_range(columns));
    } else {
      t.second_product(block, 0, whole_range(rows), whole_range(columns));
    }
  });
  return std::max(0.0, seconds - overhead(device, block, first));
}

double LeastCosts::best_part(DeviceIndex device, WeightBlock block, bool first) const {
  const std::int64_t columns =
      block == WeightBlock::attention ? plan_->model.heads : plan_->model.intermediate;
  const double whole = product(device, block, first, rows(), columns);
  if (whole <= 0.0) return 1.0;
  double rate = kNever;
  for (const std::int32_t size : tile_sizes())
    rate = std::min(rate, product(device, block, first, size, columns) / size);
  return std::min(1.0, rate * rows() / whole);
}

std::set<std::int32_t> LeastCosts::tile_sizes() const {
  std::set<std::int32_t> sizes{rows()};
  for (std::int32_t owners = 1; owners <= devices(); ++owners) {
    for (const std::int32_t part : {rows() / owners, (rows() + owners - 1) / owners}) {
      for (std::int32_t tiles = 1; tiles <= kMostTiles; ++tiles) {
        sizes.insert(part / tiles);
        sizes.insert((part + tiles - 1) / tiles);
      }
    }
  }
  sizes.erase(0);
  return sizes;
}

double LeastCosts::way(DeviceIndex device, bool out) const {
  double least = kNever;
  for (DeviceIndex other = 0; other < devices(); ++other) {
    if (other == device) continue;
    const DeviceIndex from = out ? device : other;
    const model::Route& route = plan_->cluster.route(from, out ? other : device);
    const double overhead =
        std::min(costs_.message_overhead(from, model::Bytes{bytes_}, false).value(),
                 costs_.message_overhead(from, model::Bytes{bytes_}, true).value());
    least = std::min(least, overhead + route.latency.value() + bytes_ / route.bandwidth.value());
  }
  return least;
}

MostRoom::MostRoom(const Plan& plan)
    : plan_(plan), limited_(!may_stream(plan)), splits_head_(splits_head(plan)) {
  plan_.devices.clear();
}

std::int64_t MostRoom::units(DeviceIndex device, bool master, std::int64_t heads,
                             std::int64_t unit) {
  if (!limited_) return plan_.model.intermediate / unit;
  const std::int64_t columns =
      budget(device, master && !splits_head_)
          .max_columns(static_cast<std::size_t>(device), whole_range(heads));
  return columns < 0 ? columns : columns / unit;
}

std::int64_t MostRoom::layers(DeviceIndex device) {
  if (!limited_) return plan_.model.layers;
  return most_layers(budget(device, plan_.cluster.size() == 1), static_cast<std::size_t>(device));
}

Budget MostRoom::budget(DeviceIndex device, bool master) {
  plan_.master = master ? device : (device + 1) % plan_.cluster.size();
  return {plan_, std::vector<double>(plan_.cluster.devices().size(), 0.0)};
}

}  // namespace tandem::planner
