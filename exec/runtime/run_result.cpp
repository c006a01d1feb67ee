#include "exec/runtime/run_result.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "exec/runtime/run_spans.hpp"
#include "model/base/error.hpp"
#include "model/graph/message_schedule.hpp"
#include "model/graph/work.hpp"

namespace tandem::exec {
namespace {

using model::DeviceIndex;
using model::TaskKind;

// Threads that wait for each other in earnest always wait a little.
constexpr double kSteadyTolerance = 0.01;

constexpr double kNobodyKnows = std::numeric_limits<double>::quiet_NaN();

// The work of a device in a run, from its graphs: reports need to contain times only.
struct DeviceWork {
  struct Channel {
    std::int64_t count = 0;
    double bytes = 0.0;
  };
  std::array<std::int64_t, model::kTaskKinds> counts{};  // of the cpu and disk lanes
  double bytes_loaded = 0.0;
  std::map<DeviceIndex, Channel> sent;      // by peer
  std::map<DeviceIndex, Channel> received;  // by peer
  [[nodiscard]] bool idle() const {
    return sent.empty() && received.empty() &&
           std::ranges::all_of(counts, [](std::int64_t count) { return count == 0; });
  }
};

std::vector<DeviceWork> work_of_run(const planner::Plan& plan, model::Steps& steps) {
  std::vector<DeviceWork> devices(plan.cluster.devices().size());
  const auto device = [&](DeviceIndex d) -> DeviceWork& {
    return devices[static_cast<std::size_t>(d)];
  };
  const auto count = [&](DeviceIndex d, TaskKind kind, std::int64_t times) {
    device(d).counts.at(static_cast<std::size_t>(kind)) += times;
  };
  // The traffic of a step does not depend on earlier steps.
  const auto add = [&](const model::TaskGraph& graph, std::int64_t times) {
    const model::MessageSchedule schedule = model::message_schedule(graph);
    for (model::TaskIndex i = 0; i < graph.size(); ++i) {
      const model::Task& task = graph.tasks()[static_cast<std::size_t>(i)];
      const bool moves = task.lane != model::LaneKind::cpu || task.kind == TaskKind::fetch;
      const double bytes =
          !moves ? 0.0
                 : static_cast<double>(times) *
                       model::span_bytes(task, model::work_of(plan.model, graph.batch(), task));
      if (task.lane != model::LaneKind::channel) {
        count(task.device, task.kind, times);
        device(task.device).bytes_loaded += bytes;
        continue;
      }
      if (!schedule.is_relay(i)) count(task.device, TaskKind::capture, times);
      count(task.peer, TaskKind::deliver, times);
      for (DeviceWork::Channel* end :
           {&device(task.device).sent[task.peer], &device(task.peer).received[task.device]}) {
        end->count += times;
        end->bytes += bytes;
      }
    }
  };
  struct Structure {
    std::int32_t first = 0;  // step of it
    std::int64_t steps = 0;
  };
  std::map<std::shared_ptr<const char>, Structure> structures;
  for (std::int32_t i = 0; i < steps.count(); ++i) {
    Structure& structure = structures[steps.graph(i).structure()];
    if (structure.steps++ == 0) structure.first = i;
  }
  for (const auto& [key, structure] : structures)
    add(steps.graph(structure.first), structure.steps);
  return devices;
}

const ChannelTally* find_channel(const DeviceTally& tally, DeviceIndex peer, bool sends) {
  const auto found = std::ranges::find_if(tally.channels, [&](const ChannelTally& channel) {
    return channel.peer == peer && channel.sends == sends;
  });
  return found == tally.channels.end() ? nullptr : &*found;
}

// Returns the fault in a tally of `steps` steps of `work`; empty: none.
std::string fault_of(const DeviceTally& tally, const DeviceWork& work, std::int32_t steps) {
  if (work.idle()) return tally.channels.empty() ? "" : "channels, expected none";
  const auto expected = [](const std::string& what, std::int64_t reported, std::int64_t truth) {
    return std::to_string(reported) + " " + what + ", expected " + std::to_string(truth);
  };
  if (tally.steps != steps) return expected("steps", tally.steps, steps);
  for (std::size_t k = 0; k < tally.kinds.size(); ++k) {
    if (tally.kinds.at(k).count == work.counts.at(k)) continue;
    return expected("tasks of kind " + std::string(to_string(static_cast<TaskKind>(k))),
                    tally.kinds.at(k).count, work.counts.at(k));
  }
  const std::size_t channels = work.sent.size() + work.received.size();
  if (tally.channels.size() != channels) {
    return expected("channels", static_cast<std::int64_t>(tally.channels.size()),
                    static_cast<std::int64_t>(channels));
  }
  for (const bool sends : {true, false}) {
    for (const auto& [peer, channel] : sends ? work.sent : work.received) {
      const ChannelTally* reported = find_channel(tally, peer, sends);
      const std::int64_t count = reported == nullptr ? 0 : reported->count;
      if (count == channel.count) continue;
      return expected(
          (sends ? "messages to device " : "messages from device ") + std::to_string(peer), count,
          channel.count);
    }
  }
  return "";
}

void check_tally(const planner::Plan& plan, const DeviceWork& work, std::int32_t steps,
                 DeviceIndex device, const DeviceTally& tally) {
  const std::string fault = fault_of(tally, work, steps);
  if (fault.empty()) return;
  throw Error("report of device " + plan.cluster.devices()[static_cast<std::size_t>(device)].name +
              ": " + fault + "; install the same tandem on every device");
}

// The devices' tallies on the master's clock.
class Totals {
 public:
  Totals(const std::vector<DeviceAccount>& accounts, DeviceIndex master, double tick_s)
      : accounts_(accounts),
        origin_ns_(accounts[static_cast<std::size_t>(master)].report.tally.origin_ns),
        tick_s_(tick_s) {}

  // For a missing device, only the traffic of its channels.
  [[nodiscard]] model::DeviceTotals of(DeviceIndex device, const DeviceWork& work) const {
    model::DeviceTotals totals;
    for (const auto& [peer, channel] : work.sent) {
      totals.sent.push_back({.peer = peer,
                             .count = channel.count,
                             .total_s = flights_s(device, peer, channel.count),
                             .bytes = channel.bytes});
    }
    if (account(device).missing) return totals;
    const DeviceTally& tally = account(device).report.tally;
    for (std::size_t k = 0; k < tally.kinds.size(); ++k) {
      totals.kinds.at(k) = {.count = tally.kinds.at(k).count,
                            .total_s = seconds(tally.kinds.at(k).total_ns)};
    }
    totals.busy_cpu_s = seconds(tally.busy_cpu_ns);
    totals.busy_disk_s = seconds(tally.busy_disk_ns);
    totals.bytes_loaded = work.bytes_loaded;
    totals.first_cpu_s = since_origin(device, tally.first_cpu_ns);
    totals.last_cpu_s = since_origin(device, tally.last_cpu_ns);
    totals.late_stall_s = seconds(tally.late_stall_ns);
    totals.late_disk_s = seconds(tally.late_disk_ns);
    for (const std::int64_t sampled_ns : tally.sampled_ns) {
      totals.sampled_s.push_back(since_origin(device, sampled_ns));
    }
    return totals;
  }

 private:
  [[nodiscard]] const DeviceAccount& account(DeviceIndex device) const {
    return accounts_[static_cast<std::size_t>(device)];
  }
  [[nodiscard]] double seconds(std::int64_t ns) const { return static_cast<double>(ns) * tick_s_; }
  [[nodiscard]] double since_origin(DeviceIndex device, std::int64_t at_ns) const {
    return seconds(at_ns - account(device).clock_ahead_ns - origin_ns_);
  }

  // Returns the total time of a channel's messages; NaN if an end of it is missing.
  [[nodiscard]] double flights_s(DeviceIndex from, DeviceIndex to, std::int64_t count) const {
    if (account(from).missing || account(to).missing) return kNobodyKnows;
    const auto sum_at = [&](DeviceIndex self, DeviceIndex peer, bool sends) {
      const ChannelTally* end = find_channel(account(self).report.tally, peer, sends);
      require(end != nullptr, "merge: tallies have been checked");
      return end->times_ns - static_cast<std::uint64_t>(count) *
                                 static_cast<std::uint64_t>(account(self).clock_ahead_ns);
    };
    const auto flights_ns =
        static_cast<std::int64_t>(sum_at(to, from, false) - sum_at(from, to, true));
    // Aligned clocks may be wrong by more than a short flight, and on one machine a message may
    // arrive before its sender's call returns.
    return std::max(0.0, seconds(flights_ns));
  }

  const std::vector<DeviceAccount>& accounts_;
  std::int64_t origin_ns_;
  double tick_s_;
};

model::DeviceMetrics unknown_metrics(const std::string& name) {
  return {.name = name,
          .peak_memory = {.weights = kNobodyKnows,
                          .kv_cache = kNobodyKnows,
                          .activations = kNobodyKnows,
                          .buffers = kNobodyKnows,
                          .program = kNobodyKnows},
          .bytes_sent = kNobodyKnows,
          .bytes_loaded = kNobodyKnows,
          .busy_cpu_s = kNobodyKnows,
          .busy_disk_s = kNobodyKnows,
          .busy_channel_s = kNobodyKnows,
          .stall_s = kNobodyKnows};
}

// Marks the values of devices that were lost before their report as unknown.
void leave_out_missing(const std::vector<DeviceAccount>& accounts, RunResult& merged) {
  for (std::size_t d = 0; d < accounts.size(); ++d) {
    if (!accounts[d].missing) continue;
    model::DeviceMetrics& metrics = merged.result.devices[d];
    metrics = unknown_metrics(metrics.name);
    merged.result.steady.reset();  // the worst device may be this one
    std::erase_if(merged.result.task_kinds,
                  [&](const model::KindResult& kind) { return kind.device == metrics.name; });
  }
}

}  // namespace

void check_report(const planner::Plan& plan, model::Steps& steps, model::DeviceIndex device,
                  const DeviceAccount& account, bool records) {
  const std::vector<DeviceWork> work = work_of_run(plan, steps);
  check_tally(plan, work[static_cast<std::size_t>(device)], steps.count(), device,
              account.report.tally);
  if (records) check_records(plan, steps, device, account.times);
}

model::ResultOrigin origin_of(Pace pace) {
  switch (pace) {
    case Pace::real:
      return model::ResultOrigin::measured;
    case Pace::measured:
      return model::ResultOrigin::measured_emulated;
    case Pace::nominal:
      return model::ResultOrigin::replayed;
  }
  throw std::logic_error("origin_of: no such pace");
}

RunResult merge(const planner::Plan& plan, model::Steps& steps,
                const std::vector<DeviceAccount>& accounts, bool keep_spans, double dilation,
                std::vector<model::ServedStep> served) {
  require(accounts.size() == plan.cluster.devices().size(), "merge: one account a device");
  const double tick_s = 1e-9 / dilation;
  const std::vector<DeviceWork> work = work_of_run(plan, steps);
  for (std::size_t d = 0; d < accounts.size(); ++d) {
    if (accounts[d].missing) continue;
    const auto device = static_cast<DeviceIndex>(d);
    check_tally(plan, work[d], steps.count(), device, accounts[d].report.tally);
    if (keep_spans) check_records(plan, steps, device, accounts[d].times);
  }
  model::RunRecorder recorder(plan.cluster, plan.master, /*keep_spans=*/false);
  recorder.set_served(std::move(served));
  const Totals totals(accounts, plan.master, tick_s);
  for (std::size_t d = 0; d < accounts.size(); ++d) {
    const auto device = static_cast<DeviceIndex>(d);
    recorder.add(device, totals.of(device, work[d]));
    recorder.set_peak_memory(device, accounts[d].report.peak_memory,
                             accounts[d].report.mapped_bytes);
  }

  RunResult merged;
  merged.result.origin = model::ResultOrigin::measured;  // an emulation says otherwise
  merged.result.evaluator = "exec";
  merged.result.plan = {.sha256 = planner::plan_sha256(plan),
                        .strategy = plan.strategy,
                        .model = plan.model.name,
                        .platform = plan.cluster.name()};
  merged.result.metrics = recorder.metrics();
  merged.result.steady = recorder.steady(kSteadyTolerance);
  merged.result.devices = recorder.devices();
  merged.result.links = recorder.links();
  for (std::size_t d = 0; d < accounts.size(); ++d) {
    for (int kind = 0; kind < model::kTaskKinds; ++kind) {
      const model::KindMetrics& metrics = recorder.kinds()[d][static_cast<std::size_t>(kind)];
      if (metrics.count == 0) continue;
      merged.result.task_kinds.push_back({.device = plan.cluster.devices()[d].name,
                                          .kind = static_cast<model::TaskKind>(kind),
                                          .metrics = metrics});
    }
  }
  if (keep_spans) merged.trace = merge_spans(plan, steps, accounts, tick_s);
  leave_out_missing(accounts, merged);
  return merged;
}

}  // namespace tandem::exec
