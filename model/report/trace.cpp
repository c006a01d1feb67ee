#include "model/report/trace.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "model/base/error.hpp"
#include "model/base/statistics.hpp"
#include "model/graph/message_schedule.hpp"

namespace tandem::model {

std::vector<double> Metrics::token_latencies_s() const {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < token_times_s.size(); ++i) {
    gaps.push_back(token_times_s[i] - token_times_s[i - 1]);
  }
  return gaps;
}

LatencyStats latency_stats(const std::vector<double>& gaps) {
  return {.mean = mean(gaps),
          .p50 = quantile(gaps, 0.50),
          .p90 = quantile(gaps, 0.90),
          .p99 = quantile(gaps, 0.99)};
}

std::vector<double> record_bytes(const TaskGraph& graph, std::size_t devices) {
  std::vector<double> bytes(devices, 0.0);
  const MessageSchedule schedule = message_schedule(graph);
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
    const bool message = task.lane == LaneKind::channel;
    const bool captured = message && !schedule.is_relay(i);
    bytes.at(static_cast<std::size_t>(task.device)) += captured ? 2.0 * kRecordBytes : kRecordBytes;
    if (message) bytes.at(static_cast<std::size_t>(task.peer)) += 2.0 * kRecordBytes;
  }
  return bytes;
}

RunRecorder::RunRecorder(const Cluster& cluster, DeviceIndex master, bool keep_spans)
    : cluster_(&cluster),
      master_(master),
      keep_spans_(keep_spans),
      kinds_(cluster.devices().size()),
      link_bytes_(cluster.links().size(), 0.0),
      first_start_(cluster.devices().size(), std::numeric_limits<double>::infinity()),
      last_end_(cluster.devices().size(), 0.0),
      disk_(cluster.devices().size()),
      late_(cluster.devices().size()) {
  require(master >= 0 && master < cluster.size(), "recorder: master outside the cluster");
  for (const Device& device : cluster.devices()) {
    trace_.devices.push_back(device.name);
    devices_.push_back({});
    devices_.back().name = device.name;
  }
}

void RunRecorder::record(std::span<const Span> spans) {
  for (const Span& span : spans) record_one(span);
}

void RunRecorder::record_one(const Span& span) {
  require(span.device >= 0 && span.device < cluster_->size(), "recorder: unknown device");
  const auto d = static_cast<std::size_t>(span.device);
  DeviceMetrics& device = devices_[d];
  const double duration = span.end - span.start;
  KindMetrics& kind = kinds_[d][static_cast<std::size_t>(span.kind)];
  ++kind.count;
  kind.total_s += duration;
  if (span.stall > 0.0) disk(d, span.step).stall_s += span.stall;
  switch (span.lane) {
    case LaneKind::cpu:
      device.busy_cpu_s += duration;
      if (span.kind == TaskKind::fetch) device.bytes_loaded += span.bytes;
      first_start_[d] = std::min(first_start_[d], span.start);
      last_end_[d] = std::max(last_end_[d], span.end);
      break;
    case LaneKind::disk:
      device.busy_disk_s += duration;
      device.bytes_loaded += span.bytes;
      disk(d, span.step).busy_s += duration;
      break;
    case LaneKind::channel:
      device.busy_channel_s += duration;
      device.bytes_sent += span.bytes;
      for (const Hop& hop : cluster_->route(span.device, span.peer).hops) {
        link_bytes_[static_cast<std::size_t>(hop.link)] += span.bytes;
      }
      break;
  }
  if (span.device == master_) {
    if (span.step == 0 && (!has_origin_ || span.start < origin_)) {
      origin_ = span.start;
      has_origin_ = true;
    }
    if (span.kind == TaskKind::sample) {
      double& sampled = sampled_.try_emplace(span.step, span.end).first->second;
      sampled = std::max(sampled, span.end);
    }
    if (const auto number = static_cast<std::size_t>(span.step); number < served_.size()) {
      ServedStep& step = served_[number];
      if (span.kind == TaskKind::sample) step.sampled_s.push_back(span.end);
      if (span.lane == LaneKind::cpu) step.end_s = std::max(step.end_s, span.end);
    }
  }
  if (keep_spans_) trace_.spans.push_back(span);
}

void RunRecorder::submit(const ScheduledStep& step) { served_.push_back({.step = step}); }

void RunRecorder::add_between(const RunRecorder& a, const RunRecorder& b, double t,
                              std::int32_t step, double base) {
  require(a.devices_.size() == devices_.size() && b.devices_.size() == devices_.size(),
          "recorder: steps of another cluster");
  const auto between = [t](double x, double y) { return x + t * (y - x); };
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    DeviceMetrics& device = devices_[d];
    const auto add = [&](double DeviceMetrics::*value) {
      device.*value += between(a.devices_[d].*value, b.devices_[d].*value);
    };
    add(&DeviceMetrics::bytes_sent);
    add(&DeviceMetrics::bytes_loaded);
    add(&DeviceMetrics::busy_cpu_s);
    add(&DeviceMetrics::busy_disk_s);
    add(&DeviceMetrics::busy_channel_s);
    for (std::size_t k = 0; k < kinds_[d].size(); ++k) {
      kinds_[d][k].count += a.kinds_[d][k].count;
      kinds_[d][k].total_s += between(a.kinds_[d][k].total_s, b.kinds_[d][k].total_s);
    }
    if (std::isfinite(a.first_start_[d])) {
      first_start_[d] =
          std::min(first_start_[d], base + between(a.first_start_[d], b.first_start_[d]));
      last_end_[d] = std::max(last_end_[d], base + between(a.last_end_[d], b.last_end_[d]));
    }
    if (a.disk_[d].empty() && b.disk_[d].empty()) continue;
    const StepDisk from = a.disk_[d].empty() ? StepDisk{} : a.disk_[d].front();
    const StepDisk to = b.disk_[d].empty() ? StepDisk{} : b.disk_[d].front();
    StepDisk& now = disk(d, step);
    now.stall_s += between(from.stall_s, to.stall_s);
    now.busy_s += between(from.busy_s, to.busy_s);
  }
  for (std::size_t i = 0; i < link_bytes_.size(); ++i)
    link_bytes_[i] += between(a.link_bytes_[i], b.link_bytes_[i]);
  if (step == 0 && a.has_origin_) {
    origin_ = base + between(a.origin_, b.origin_);
    has_origin_ = true;
  }
  if (!a.sampled_.empty() && !b.sampled_.empty())
    sampled_[step] = base + between(a.sampled_.begin()->second, b.sampled_.begin()->second);
}

void RunRecorder::add(DeviceIndex device, const DeviceTotals& totals) {
  require(device >= 0 && device < cluster_->size(), "recorder: unknown device");
  const auto d = static_cast<std::size_t>(device);
  DeviceMetrics& metrics = devices_[d];
  kinds_[d] = totals.kinds;
  metrics.busy_cpu_s = totals.busy_cpu_s;
  metrics.busy_disk_s = totals.busy_disk_s;
  metrics.bytes_loaded = totals.bytes_loaded;
  first_start_[d] = totals.first_cpu_s;
  last_end_[d] = totals.last_cpu_s;
  late_[d] = {.stall_s = totals.late_stall_s, .busy_s = totals.late_disk_s};
  KindMetrics& transfers = kinds_[d][static_cast<std::size_t>(TaskKind::transfer)];
  for (const DeviceTotals::Sent& sent : totals.sent) {
    transfers.count += sent.count;
    transfers.total_s += sent.total_s;
    metrics.busy_channel_s += sent.total_s;
    metrics.bytes_sent += sent.bytes;
    for (const Hop& hop : cluster_->route(device, sent.peer).hops) {
      link_bytes_[static_cast<std::size_t>(hop.link)] += sent.bytes;
    }
  }
  if (device != master_) return;
  origin_ = 0.0;
  has_origin_ = true;
  for (std::size_t step = 0; step < totals.sampled_s.size(); ++step) {
    sampled_[static_cast<std::int32_t>(step)] = totals.sampled_s[step];
  }
}

void RunRecorder::set_peak_memory(DeviceIndex device, const MemoryUse& peak, double mapped_bytes) {
  require(device >= 0 && device < cluster_->size(), "recorder: unknown device");
  devices_[static_cast<std::size_t>(device)].peak_memory = peak;
  devices_[static_cast<std::size_t>(device)].mapped_bytes = mapped_bytes;
}

Metrics RunRecorder::metrics() const {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  const double origin = has_origin_ ? origin_ : kUnknown;
  Metrics metrics;
  const auto first = sampled_.find(0);
  const double encoded = last_end_[static_cast<std::size_t>(master_)];
  metrics.ttft_s = kUnknown;
  if (first != sampled_.end()) metrics.ttft_s = first->second - origin;
  if (sampled_.empty() && has_origin_ && std::isfinite(encoded)) metrics.ttft_s = encoded - origin;
  for (const auto& [step, end] : sampled_) metrics.token_times_s.push_back(end - origin);
  return metrics;
}

RunRecorder::StepDisk& RunRecorder::disk(std::size_t device, std::int32_t number) {
  require(number >= 0, "recorder: negative step");
  auto& steps = disk_[device];
  const auto step = static_cast<std::size_t>(number);
  if (steps.size() <= step) steps.resize(step + 1);
  return steps[step];
}

std::optional<Steady> RunRecorder::steady(double tolerance) const {
  if (sampled_.size() < 2) return std::nullopt;
  const auto last = std::prev(sampled_.end());
  const auto from =
      std::next(sampled_.begin(), static_cast<std::ptrdiff_t>(sampled_.size() / 2) - 1);
  const double time = last->second - from->second;
  const auto tokens = static_cast<double>(std::distance(from, last));
  std::optional<Steady> steady;
  for (std::size_t d = 0; d < disk_.size(); ++d) {
    if (devices_[d].bytes_loaded == 0.0) continue;
    double stall = late_[d].stall_s;
    double busy = late_[d].busy_s;
    for (auto step = static_cast<std::size_t>(from->first) + 1;
         step < disk_[d].size() && step <= static_cast<std::size_t>(last->first); ++step) {
      stall += disk_[d][step].stall_s;
      busy += disk_[d][step].busy_s;
    }
    const double fraction = time > 0.0 ? stall / time : 0.0;
    const double slack = (time - stall - busy) / tokens;
    if (!steady) steady = Steady{.verdict = "", .stall_fraction = fraction, .slack_s = slack};
    steady->stall_fraction = std::max(steady->stall_fraction, fraction);
    steady->slack_s = std::min(steady->slack_s, slack);
  }
  if (steady) steady->verdict = steady->stall_fraction <= tolerance ? "steady" : "stalling";
  return steady;
}

double RunRecorder::idle_s(double from, double to) const {
  if (served_.empty()) return 0.0;
  double idle = 0.0;
  double over = from;  // all steps so far
  for (const ServedStep& served : served_) {
    idle += std::max(0.0, std::min(served.step.not_before_s, to) - over);
    over = std::max(over, served.end_s);
  }
  return idle + std::max(0.0, to - over);
}

std::vector<DeviceMetrics> RunRecorder::devices() const {
  std::vector<DeviceMetrics> devices = devices_;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const double all = last_end_[d] - first_start_[d] - idle_s(first_start_[d], last_end_[d]);
    devices[d].stall_s = std::max(0.0, all - devices[d].busy_cpu_s);
  }
  return devices;
}

std::vector<LinkMetrics> RunRecorder::links() const {
  std::vector<LinkMetrics> links;
  for (std::size_t i = 0; i < link_bytes_.size(); ++i) {
    links.push_back({cluster_->links()[i].name, link_bytes_[i]});
  }
  return links;
}

}  // namespace tandem::model
