#pragma once

// One schema for what was predicted and what was measured: spans, and the metrics made of them.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/scheduler.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::model {

// One executed task. Times in seconds since the start of the run. Of a transfer: from when the
// channel takes it to when it is done at the receiver.
struct Span {
  std::int32_t step = 0;
  TaskIndex task = 0;
  TaskKind kind = TaskKind::add;
  LaneKind lane = LaneKind::cpu;
  DeviceIndex device = 0;
  DeviceIndex peer = -1;
  std::int32_t layer = -1;
  double start = 0.0;
  double end = 0.0;
  double bytes = 0.0;  // wire, disk, or streamed bytes
  double flops = 0.0;
  // How long the task waited for a load, beyond everything else that it waited for.
  double stall = 0.0;
};

// The bytes that a device keeps of a task until a timeline is made of all.
inline constexpr double kRecordBytes = 24.0;
// The bytes that each of `devices` devices so keeps of a step: a record of each of its tasks, and
// one more of each message that it captures or delivers. (Nobody captures a relay.)
[[nodiscard]] std::vector<double> record_bytes(const TaskGraph& graph, std::size_t devices);

struct Trace {
  std::vector<std::string> devices{};  // names, by DeviceIndex
  std::vector<Span> spans{};
};

// What a device did in a run.
struct DeviceMetrics {
  std::string name{};
  MemoryUse peak_memory{};
  double mapped_bytes = 0.0;  // of the weights, those that were used in their file to the end
  double bytes_sent = 0.0;
  double bytes_loaded = 0.0;  // read from the disk: loads, and embedding rows that are fetched
  double busy_cpu_s = 0.0;
  double busy_disk_s = 0.0;
  double busy_channel_s = 0.0;  // sum of the spans of the channels it sends on, flights included
  // Its cpu lane idle between its first start and its last end, but for the times in which no step
  // was under way at all: a device that waits for requests to arrive has nothing to do.
  double stall_s = 0.0;
};
struct KindMetrics {  // of one device
  std::int64_t count = 0;
  double total_s = 0.0;
};
// What the spans of one device add up to. Times in seconds since the first start on the master.
struct DeviceTotals {
  struct Sent {  // its transfers to one peer
    DeviceIndex peer = 0;
    std::int64_t count = 0;
    double total_s = 0.0;
    double bytes = 0.0;
  };
  std::array<KindMetrics, kTaskKinds> kinds{};  // of its cpu and disk lanes
  double busy_cpu_s = 0.0;
  double busy_disk_s = 0.0;
  double bytes_loaded = 0.0;
  double first_cpu_s = 0.0;
  double last_cpu_s = 0.0;
  std::vector<Sent> sent{};
  // Sums over the second half of n steps, the steps from n / 2 on.
  double late_stall_s = 0.0;
  double late_disk_s = 0.0;
  std::vector<double> sampled_s{};  // end of each step's last sample; empty: nothing is sampled
};
struct LinkMetrics {
  std::string name{};
  double bytes = 0.0;  // both directions
};

// Mean and quantiles of the gaps between tokens; all NaN where there is no gap.
struct LatencyStats {
  double mean = 0.0;
  double p50 = 0.0;
  double p90 = 0.0;
  double p99 = 0.0;
};
[[nodiscard]] LatencyStats latency_stats(const std::vector<double>& gaps);

struct Metrics {
  // From the start of the command until the first step may begin: weights loaded, devices warm.
  // Absent in a prediction.
  std::optional<double> ready_s{};
  // First start on the master in step 0 to the end of its sample; where nothing is sampled (an
  // encoder's pass), to the end of the master's last task.
  double ttft_s = 0.0;
  std::vector<double> token_times_s{};  // when each token was sampled, from the same origin
  // Statistics over the gaps within each of several requests; absent of one request. The times
  // above are absent (NaN, empty) where this is present, as each request has its own.
  std::optional<LatencyStats> token_latency{};
  // Tokens a second, from the first arrival to the last token.
  std::optional<double> throughput_tokens_per_s{};
  // Gaps between samples; empty when fewer than two tokens.
  [[nodiscard]] std::vector<double> token_latencies_s() const;
};

// How the memory scheduler does once it has settled: over the second half of the tokens.
struct Steady {
  std::string verdict{};        // "steady": nobody waits for a disk; else "stalling"
  double stall_fraction = 0.0;  // of the time, waited for loads: the most over devices
  // A token's time without those waits less what the disk takes for it: the least over devices.
  // What a disk has to spare, or lacks.
  double slack_s = 0.0;
};

// A step of a run that a scheduler drives, with what became of it on the master. Seconds since the
// run began.
struct ServedStep {
  ScheduledStep step{};
  std::vector<double> sampled_s{};  // when its sampled rows were, in their order
  double end_s = 0.0;               // of the last task of the master's cpu lane
};

// Gathers metrics as spans come, in any order within a device; keeps the spans only if asked.
class RunRecorder {
 public:
  RunRecorder(const Cluster& cluster, DeviceIndex master, bool keep_spans);
  void record(const Span& span) { record(std::span(&span, 1)); }
  void record(std::span<const Span> spans);
  // The next step of a run that a scheduler drives; its spans come after it. Where steps are
  // submitted, when each row was sampled is kept.
  void submit(const ScheduledStep& step);
  // Records step `step`, that begins at `base`, as (1 - t) times `a` and t times `b`: recorders of
  // one step each, numbered 0, with the same tasks and times from the step's begin. Keeps no spans.
  void add_between(const RunRecorder& a, const RunRecorder& b, double t, std::int32_t step,
                   double base);
  // Takes the sums of a device that keeps no spans, instead of record(): once for each device.
  void add(DeviceIndex device, const DeviceTotals& totals);
  // Peak memory is not made of spans: whoever knows it, says it.
  void set_peak_memory(DeviceIndex device, const MemoryUse& peak, double mapped_bytes = 0.0);

  [[nodiscard]] DeviceIndex master() const { return master_; }
  // The steps that were submitted, in their order.
  [[nodiscard]] const std::vector<ServedStep>& served() const { return served_; }
  // Of a run whose devices tell sums alone: the steps, seconds since the master's first start.
  void set_served(std::vector<ServedStep> steps) { served_ = std::move(steps); }
  [[nodiscard]] Metrics metrics() const;
  // Absent where nothing is loaded or fewer than two tokens are sampled. "steady" if stall_fraction
  // is at most `tolerance`.
  [[nodiscard]] std::optional<Steady> steady(double tolerance) const;
  [[nodiscard]] std::vector<DeviceMetrics> devices() const;
  // By device, then kind.
  [[nodiscard]] const std::vector<std::array<KindMetrics, kTaskKinds>>& kinds() const {
    return kinds_;
  }
  [[nodiscard]] std::vector<LinkMetrics> links() const;
  [[nodiscard]] const Trace& trace() const { return trace_; }

 private:
  void record_one(const Span& span);

  const Cluster* cluster_;
  DeviceIndex master_;
  bool keep_spans_;
  Trace trace_;
  std::vector<DeviceMetrics> devices_;  // without stall_s, which follows from the rest
  std::vector<std::array<KindMetrics, kTaskKinds>> kinds_;
  std::vector<double> link_bytes_;
  std::vector<double> first_start_;  // cpu lane, by device
  std::vector<double> last_end_;     // cpu lane, by device
  struct StepDisk {
    double stall_s = 0.0;
    double busy_s = 0.0;
  };
  StepDisk& disk(std::size_t device, std::int32_t number);

  std::vector<std::vector<StepDisk>> disk_;  // by device, step; empty: nothing loaded
  std::vector<StepDisk> late_;               // by device: of the second half of the steps, summed
  double origin_ = 0.0;                      // master's first start in step 0
  bool has_origin_ = false;
  std::vector<ServedStep> served_;
  // Seconds within [from, to] in which no step is under way: submitted, and not over on the master.
  [[nodiscard]] double idle_s(double from, double to) const;
  std::map<std::int32_t, double> sampled_;  // step -> end of its last sample on the master
};

// Chrome/Perfetto trace-event JSON: one process a device, one thread a lane, one complete event a
// span with its id and sizes in `args`. `label` ("predicted", "measured", "replayed") is in the
// process names.
[[nodiscard]] std::string to_perfetto_json(const Trace& trace, std::string_view label);
struct LabelledTrace {
  std::string label{};
  Trace trace{};
};
// Traces of one plan in one file: for each device a process of each trace, in their order.
[[nodiscard]] std::string to_perfetto_json(const std::vector<LabelledTrace>& traces);
// Reads back what to_perfetto_json(trace, label) wrote. Throws Error naming `source` and the fault.
[[nodiscard]] Trace parse_perfetto_json(std::string_view text, std::string_view source);

}  // namespace tandem::model
