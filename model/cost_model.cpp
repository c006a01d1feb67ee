#include "model/cost_model.hpp"

#include <algorithm>
#include <utility>

#include "model/error.hpp"

namespace tandem::model {

namespace {

// Kinds that the profile has rates for: all but what the memory scheduler adds.
bool is_rated(TaskKind kind) {
  return kind != TaskKind::fetch && kind != TaskKind::load && kind != TaskKind::release;
}

// f of compute_time. Profiles have about ten points: a linear search beats a binary one.
double seconds_per_byte(const std::vector<RatePoint>& points, double reuse) {
  if (reuse <= points.front().reuse) return points.front().seconds_per_byte;
  const RatePoint& last = points.back();
  if (reuse >= last.reuse) return last.seconds_per_byte * (reuse / last.reuse);
  std::size_t i = 1;
  while (points[i].reuse < reuse) ++i;
  const RatePoint& a = points[i - 1];
  const RatePoint& b = points[i];
  const double t = (reuse - a.reuse) / (b.reuse - a.reuse);
  return a.seconds_per_byte + t * (b.seconds_per_byte - a.seconds_per_byte);
}

}  // namespace

CostModel::CostModel(Transformer transformer, std::vector<DeviceProfile> profiles)
    : transformer_(std::move(transformer)), profiles_(std::move(profiles)) {
  for (const DeviceProfile& profile : profiles_) {
    for (int kind = 0; kind < kTaskKinds; ++kind) {
      if (!is_rated(static_cast<TaskKind>(kind))) continue;
      const std::vector<RatePoint>& points = profile.rate[static_cast<std::size_t>(kind)].points;
      require(!points.empty(), "cost model: a task kind without a rate");
      require(points.front().reuse > 0.0, "cost model: a rate at a reuse of 0");
      const auto disorder = std::adjacent_find(
          points.begin(), points.end(),
          [](const RatePoint& a, const RatePoint& b) { return a.reuse >= b.reuse; });
      require(disorder == points.end(), "cost model: rates not in ascending order of reuse");
    }
  }
}

Seconds CostModel::compute_time(const Batch& batch, const Task& task) const {
  require(task.lane == LaneKind::cpu, "compute_time: not a cpu task");
  if (task.kind == TaskKind::release) return Seconds{0.0};
  return compute_time(task.device, task.kind, work_of(transformer_, batch, task));
}

Seconds CostModel::compute_time(DeviceIndex device, TaskKind kind, const Work& work) const {
  require(device >= 0 && static_cast<std::size_t>(device) < profiles_.size(),
          "compute_time: no profile for the device");
  if (kind == TaskKind::fetch) kind = TaskKind::embed;
  require(is_rated(kind) && kind != TaskKind::transfer, "compute_time: not a compute task");
  const KindRate& rate =
      profiles_[static_cast<std::size_t>(device)].rate[static_cast<std::size_t>(kind)];
  return Seconds{rate.overhead_s + work.streamed_bytes * seconds_per_byte(rate.points, work.reuse)};
}

Seconds CostModel::message_overhead(DeviceIndex sender, Bytes payload) const {
  require(sender >= 0 && static_cast<std::size_t>(sender) < profiles_.size(),
          "message_overhead: no profile for the device");
  const KindRate& rate = profiles_[static_cast<std::size_t>(sender)]
                             .rate[static_cast<std::size_t>(TaskKind::transfer)];
  return Seconds{rate.overhead_s + payload.value() * seconds_per_byte(rate.points, 1.0)};
}

Seconds lane_time(const Cluster& cluster, const CostModel& costs, const Task& task,
                  const Work& work) {
  require(task.lane != LaneKind::channel, "lane_time: not a cpu or disk task");
  if (task.kind == TaskKind::release) return Seconds{0.0};
  Seconds time{0.0};
  if (task.kind != TaskKind::load) time = costs.compute_time(task.device, task.kind, work);
  if (task.kind != TaskKind::load && task.kind != TaskKind::fetch) return time;
  const Device& device = cluster.devices()[static_cast<std::size_t>(task.device)];
  require(device.disk_bandwidth.value() > 0.0, "lane_time: device without a disk");
  return time + Bytes{work.bytes_disk} / device.disk_bandwidth;
}

}  // namespace tandem::model
