#include "model/predict/cost_model.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::model {

namespace {

// Kinds that profiles have rates for: all but what the memory scheduler adds, and what has
// another's rate.
bool is_rated(TaskKind kind) {
  return kind != TaskKind::load && kind != TaskKind::release && rate_kind(kind) == kind;
}

bool is_copy(TaskKind kind) { return kind == TaskKind::capture || kind == TaskKind::deliver; }

// f of compute_time. Profiles have about ten points: a linear search beats a binary one.
double seconds_per_byte(const std::vector<RatePoint>& points, double intensity) {
  if (intensity <= points.front().intensity) return points.front().seconds_per_byte;
  const RatePoint& last = points.back();
  if (intensity >= last.intensity) return last.seconds_per_byte * (intensity / last.intensity);
  std::size_t i = 1;
  while (points[i].intensity < intensity) ++i;
  const RatePoint& a = points[i - 1];
  const RatePoint& b = points[i];
  const double t = (intensity - a.intensity) / (b.intensity - a.intensity);
  return a.seconds_per_byte + t * (b.seconds_per_byte - a.seconds_per_byte);
}

double message_seconds(const KindRate& rate, Bytes payload) {
  return task_seconds(rate, payload.value(), 1.0);
}

void check_rate(const KindRate& rate) {
  const std::vector<RatePoint>& points = rate.points;
  require(!points.empty(), "cost model: a task kind without a rate");
  require(points.front().intensity > 0.0, "cost model: a rate at an intensity of 0");
  const auto disorder = std::adjacent_find(
      points.begin(), points.end(),
      [](const RatePoint& a, const RatePoint& b) { return a.intensity >= b.intensity; });
  require(disorder == points.end(), "cost model: rates not in ascending order of reuse");
}

void check_format(const DeviceProfile& profile, WeightFormat format) {
  if (format == WeightFormat::f32) return;
  if (profile.rate_of(TaskKind::lm_head, format) == nullptr) {
    const std::string name(to_string(format));
    if (!is_executed(format)) {
      throw Error("profile '" + profile.source + "': has no rates for weights in " + name +
                  ", expected a nominal profile, as tandem has no kernels for " + name +
                  "; plan without a measured profile, or in q4_k");
    }
    throw Error("profile '" + profile.source + "': has no rates for weights in " + name +
                ", expected those that 'tandem profile --dtype " + name +
                "' measures; measure it again, or plan with '--dtype f32'");
  }
  for (int kind = 0; kind < kTaskKinds; ++kind) {
    const auto of = static_cast<TaskKind>(kind);
    if (reads_weights(of)) check_rate(*profile.rate_of(of, format));
  }
}

// The rate by which a task of `kind` is costed; throws Error where the profile lacks it.
const KindRate& needed_rate(const DeviceProfile& profile, TaskKind kind, WeightFormat format) {
  const KindRate* const known = profile.rate_of(kind, format);
  if (known != nullptr) return *known;
  require(may_lack_rate(kind), "compute_time: a format that the model does not have");
  const std::string cache = format == WeightFormat::f32 ? "" : std::string(to_string(format));
  throw Error("profile '" + profile.source + "': has no rate for '" + std::string(to_string(kind)) +
              (cache.empty() ? "'" : "' over a cache in " + cache) +
              ", which this plan needs, expected the one that 'tandem profile" +
              (cache.empty() ? "" : " --cache-type " + cache) +
              "' measures; measure the profile again");
}

void check_cache(const DeviceProfile& profile, CacheFormat cache) {
  const WeightFormat format = rated_as(cache);
  if (format == WeightFormat::f32) return;
  const KindRate* const rate = profile.rate_of(TaskKind::attend, format);
  if (rate == nullptr) {
    const std::string name(to_string(cache));
    throw Error("profile '" + profile.source + "': has no rate for attention over a cache in " +
                name + ", expected the one that 'tandem profile --cache-type " + name +
                "' measures; measure it again, or plan with '--cache-type f32'");
  }
  check_rate(*rate);
}

}  // namespace

double task_seconds(const KindRate& rate, double streamed_bytes, double intensity) {
  return rate.overhead_s + rate.row_s * intensity +
         streamed_bytes * seconds_per_byte(rate.points, intensity);
}

CostModel::CostModel(Transformer transformer, std::vector<DeviceProfile> profiles)
    : transformer_(std::move(transformer)), profiles_(std::move(profiles)) {
  for (const DeviceProfile& profile : profiles_) {
    for (int kind = 0; kind < kTaskKinds; ++kind) {
      const auto of = static_cast<TaskKind>(kind);
      const KindRate& rate = profile.rate[static_cast<std::size_t>(kind)];
      if (!is_rated(of) || (rate.points.empty() && may_lack_rate(of))) continue;
      check_rate(rate);
    }
    for (const WeightFormat format : transformer_.formats_used()) check_format(profile, format);
    check_cache(profile, transformer_.cache);
    if (!profile.inlined) continue;
    for (const KindRate* rate :
         {&profile.inlined->send, &profile.inlined->transfer, &profile.inlined->receive})
      check_rate(*rate);
  }
}

Seconds CostModel::compute_time(const Batch& batch, const Task& task) const {
  require(task.lane == LaneKind::cpu, "compute_time: not a cpu task");
  if (task.kind == TaskKind::release) return Seconds{0.0};
  return compute_time(task.device, task.kind, work_of(transformer_, batch, task));
}

Seconds CostModel::compute_time(DeviceIndex device, TaskKind kind, const Work& work) const {
  kind = rate_kind(kind);
  require(is_rated(kind) && kind != TaskKind::transfer && !is_copy(kind),
          "compute_time: not a compute task");
  const auto rate_of = [&](WeightFormat format) -> const KindRate& {
    return needed_rate(profile(device), kind, format);
  };
  const KindRate& rate = rate_of(work.format);
  double bytes = work.streamed_bytes;
  double others = 0.0;
  for (const Work::Part& part : work.others) {
    if (part.bytes == 0.0) continue;
    bytes -= part.bytes;
    const double intensity = part.intensity > 0.0 ? part.intensity : work.intensity;
    others += part.bytes * seconds_per_byte(rate_of(part.format).points, intensity);
  }
  if (work.rows > 0.0) others += rate.row_s * (work.rows - work.intensity);
  return Seconds{task_seconds(rate, bytes, work.intensity) + others};
}

Seconds CostModel::message_overhead(DeviceIndex sender, Bytes payload,
                                    bool computing_thread) const {
  const DeviceProfile& own = profile(sender);
  return Seconds{message_seconds(computing_thread && own.inlined
                                     ? own.inlined->transfer
                                     : own.rate[static_cast<std::size_t>(TaskKind::transfer)],
                                 payload)};
}

Seconds CostModel::copy_time(DeviceIndex device, TaskKind kind, const CopySize& size,
                             bool computing_thread) const {
  require(is_copy(kind), "copy_time: neither a capture nor a delivery");
  const DeviceProfile& own = profile(device);
  double seconds = message_seconds(own.rate[static_cast<std::size_t>(kind)],
                                   Bytes{copy_work(size).streamed_bytes});
  if (computing_thread) seconds += handling_time(device, kind, size.payload).value();
  return Seconds{seconds};
}

Seconds CostModel::handling_time(DeviceIndex device, TaskKind kind, Bytes payload) const {
  require(is_copy(kind), "handling_time: neither a capture nor a delivery");
  const DeviceProfile& own = profile(device);
  if (!own.inlined) return Seconds{0.0};
  return Seconds{message_seconds(
      kind == TaskKind::capture ? own.inlined->send : own.inlined->receive, payload)};
}

const DeviceProfile& CostModel::profile(DeviceIndex device) const {
  require(device >= 0 && static_cast<std::size_t>(device) < profiles_.size(),
          "cost model: no profile for the device");
  return profiles_[static_cast<std::size_t>(device)];
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
