#pragma once

// One device's part in one run: its memory, graphs and lanes. Master and workers use the same
// class.

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/compute/compute.hpp"
#include "exec/emulation/message_overhead.hpp"
#include "exec/emulation/pacer.hpp"
#include "exec/emulation/rehearsal.hpp"
#include "exec/kernels/kernel_set.hpp"
#include "exec/runtime/run_tally.hpp"
#include "exec/runtime/runtime.hpp"
#include "exec/runtime/time_log.hpp"
#include "exec/streaming/weight_window.hpp"
#include "exec/weights/shard.hpp"
#include "exec/weights/store/block_store.hpp"
#include "exec/weights/store/resident_blocks.hpp"
#include "model/graph/memory.hpp"
#include "planner/plan/plan.hpp"
#include "planner/strategy/common/graph_cache.hpp"

namespace tandem::exec {

// Settings of a run that every device needs in addition to the plan.
struct RunOptions {
  planner::Workload workload;  // the actual prompt's length, and the most tokens to come
  Pace pace = Pace::real;
  double dilation = 1.0;  // factor by which emulated time is slowed, on every device
  // Overhead of emulated links, measured before the run; none: from the plan's profiles.
  std::optional<MessageOverhead> overhead{};
  // Reading texts instead of generation, to score them or for an encoder's hidden states: any
  // number of at most workload.prompt_tokens rows, each a step of its own, with the strategy's
  // graph for its length.
  std::int32_t scored_rows = 0;  // the most of one text, 1 of an encoder; 0: a generation
  bool keep_records = false;     // of every task, for a timeline
  // Serving instead of generation: steps of many requests from the master's scheduler, each within
  // this capacity, `most_steps` at most (0: no limit, and no report at the end). `workload` is then
  // that of the largest prompt step. Zeros: a generation.
  planner::Capacity capacity{};
  std::int64_t most_steps = 0;
  // The requests that are rotated as long texts (Compute::rotate_long).
  std::vector<std::int32_t> long_sequences{};
  [[nodiscard]] bool serves() const { return capacity.sequences > 0; }
  // Returns whether devices tally their tasks for a report.
  [[nodiscard]] bool reports() const { return !serves() || most_steps > 0; }
  // Returns the capacity that memory is needed for.
  [[nodiscard]] planner::Capacity needs() const {
    if (!serves()) return workload.capacity();
    planner::Capacity all = capacity;
    all.rows = std::max(all.rows, workload.prompt_tokens);
    return all;
  }
  bool operator==(const RunOptions&) const = default;
};
[[nodiscard]] std::string_view to_string(Pace pace);
// Convert to a small JSON object and back. Throws Error naming `source`, field, value and what is
// expected.
[[nodiscard]] std::string to_json(const RunOptions& options);
[[nodiscard]] RunOptions parse_run_options(std::string_view text, std::string_view source);

// Throws Error unless this machine has the memory that device `self` of `plan` needs for `run`.
// Allocates nothing, and ignores the plan's own memory figures, as it may come from a peer. `held`:
// bytes that this process will release or reuse.
void check_memory(const planner::Plan& plan, model::DeviceIndex self, const RunOptions& run,
                  double held = 0.0);
// Throws Error unless this machine has the memory that `devices` of `plan` need for `run` together,
// in a process each, and `more` bytes in addition.
void check_memory(const planner::Plan& plan, std::span<const model::DeviceIndex> devices,
                  const RunOptions& run, double more = 0.0, double held = 0.0);

// Returns the storage of device `self` for every step of `run`, whatever its rows.
[[nodiscard]] model::DeviceStorage storage_of(const planner::Plan& plan, const RunOptions& run,
                                              model::DeviceIndex self);

// The graphs of a generation, both lowered at once so that no step waits for it.
class StepGraphs {
 public:
  // Throws Error unless the workload fits the model and the memory for `run` every device's budget
  // in the plan.
  StepGraphs(const planner::Plan& plan, const RunOptions& run);
  StepGraphs(const planner::Plan& plan, const planner::Workload& workload);
  [[nodiscard]] std::int32_t count() const;
  // Returns the graph of step `i`: 0 is the prompt, then steps of one token each. The reference is
  // valid until the next call.
  [[nodiscard]] const model::TaskGraph& at(std::int32_t i);
  // Returns the graph of one token with nothing before it. The reference is valid until the next
  // call.
  [[nodiscard]] const model::TaskGraph& first_token();
  [[nodiscard]] const model::TaskGraph& prompt() const { return prompt_; }
  [[nodiscard]] const model::TaskGraph& decode() const { return decode_; }

 private:
  planner::Workload workload_;
  model::TaskGraph prompt_;
  model::TaskGraph decode_;
};

// Returns, by device, the bytes of the records that it keeps in `run`, in addition to the memory of
// its plan: 0 unless records are kept.
[[nodiscard]] std::vector<double> record_bytes(const planner::Plan& plan, const StepGraphs& graphs,
                                               const RunOptions& run);
// Throws Error unless these records fit each device's memory in the plan, and those of `here` this
// machine; the master also needs memory for all devices' records at the end.
void check_record_memory(const planner::Plan& plan, const StepGraphs& graphs,
                         std::span<const model::DeviceIndex> here, const RunOptions& run,
                         double held = 0.0);

struct DeviceReport {
  model::MemoryUse peak_memory;
  double mapped_bytes = 0.0;  // model::DeviceMetrics
  double bytes_sent = 0.0;
  double mean_late_s = 0.0;  // Pacer
  double max_late_s = 0.0;
  std::int64_t clock_ns = 0;  // the device's steady clock when it reported
  std::string boot;           // of its machine: devices with equal ones share a steady clock
  KernelSet kernels = KernelSet::tuned;  // that it computed with
  DeviceTally tally;
  bool operator==(const DeviceReport&) const = default;
};
[[nodiscard]] std::string to_json(const DeviceReport& report);
[[nodiscard]] DeviceReport parse_device_report(std::string_view text, std::string_view source);

// Encode records for the wire, little-endian, 24 bytes a record, and decode them. Throws Error
// naming `source` if they are not whole records.
[[nodiscard]] std::string encode_times(std::span<const TaskTime> times);
void decode_times(std::string_view bytes, std::string_view source, TimeLog& into);

// Returns whether device `self` streams weights in the steps of `graphs`.
[[nodiscard]] bool streams(const StepGraphs& graphs, model::DeviceIndex self);

// A device's weights: all of them, or the resident ones and a window for the others.
struct DeviceWeights {
  Shard shard;
  std::unique_ptr<WeightWindow> window;  // null: the shard is whole
};

// Opens the weights of a device from the checked files of its blocks: streamed if the graphs say
// so, else all of them. Resident weights come from `memory`, which keeps them; contents of `memory`
// that are not needed are freed before anything is loaded. Throws Error as WeightWindow does.
[[nodiscard]] DeviceWeights open_weights_of(const planner::Plan& plan, model::DeviceIndex self,
                                            const StepGraphs& graphs,
                                            std::span<const BlockFile> files,
                                            ResidentBlocks& memory,
                                            const WeightProgress& progress = {});

struct DeviceRunOptions {
  model::DeviceIndex self = 0;
  RunOptions run;
  int threads = 1;
  KernelSet kernels = default_kernel_set();
  Activity* activity = nullptr;  // receives the progress of steps; outlives the run, may be null
  // Turns among emulated devices of this machine; null: this device computes at any time. Outlives
  // the run.
  Turn* turn = nullptr;
  // See RuntimeOptions; for runs with several steps in flight.
  std::function<void(const std::string& reason)> on_failure{};
};

class DeviceRun {
 public:
  // `plan` and `transport` (null without channels) outlive the run. All memory is allocated here.
  DeviceRun(const planner::Plan& plan, const DeviceRunOptions& options, DeviceWeights weights,
            Transport* transport);

  [[nodiscard]] StepGraphs& graphs() { return graphs_; }
  // Executes a token's step twice, together with all other devices, and discards it: caches, pages,
  // connections and links are then in the state of a running generation.
  void warm_up();
  // Compute::expect.
  void expect(std::int64_t steps) { compute_.expect(steps); }
  // Runtime::step for step `i`; `tokens` are those of its rows, empty on devices that do not embed.
  std::int32_t step(std::int32_t i, std::span<const std::int32_t> tokens,
                    const SampleToken& sample);
  // Executes step `i` of a run that reads texts, the prompt in `batch`; records no times.
  // `not_before`: as of serve(). Throws Error unless the batch is one text, from its beginning,
  // that fits the workload.
  void read(std::int32_t i, const model::Batch& batch, std::span<const std::int32_t> tokens,
            const SampleToken& sample, Clock::time_point not_before = {});
  // Executes step `i` of a run that serves requests; `tokens` are empty on devices that do not
  // embed. Throws Error unless the batch is within the run's capacity. An emulated master begins no
  // earlier than `not_before`, for which it has waited, as requests may arrive while it idles;
  // workers begin with the master's messages. If several steps may be in flight and this one has an
  // epilogue here, executes only what comes before it and returns nothing: finish() does the rest.
  struct Served {
    std::vector<std::int64_t> sampled_ns;  // end of each sample here, in order of rows
    std::int64_t end_ns = 0;               // of the cpu lane's last task
  };
  std::optional<Served> serve(std::int32_t i, const model::Batch& batch,
                              std::span<const std::int32_t> tokens, const SampleToken& sample,
                              Clock::time_point not_before = {});
  // Returns when the messages of the first outstanding epilogue arrived; nothing if they did not
  // before `deadline`.
  [[nodiscard]] std::optional<Clock::time_point> await_finish(Clock::time_point deadline) {
    return runtime_.await_finish(deadline);
  }
  // Executes the first outstanding epilogue.
  Served finish(const SampleToken& sample);
  // Waits until all payloads of all steps have been sent; call before report().
  void settle();
  // Makes the present and every future step throw Error(reason). Any thread.
  void cancel(const std::string& reason) noexcept;

  // Moves the records of every step so far to the caller; empty unless records are kept.
  [[nodiscard]] TimeLog take_records() {
    return options_.run.keep_records ? std::exchange(times_, {}) : TimeLog{};
  }
  [[nodiscard]] DeviceReport report() const;
  [[nodiscard]] std::span<const float> logits() const { return compute_.logits(); }
  // Returns the last hidden states of the first `rows`, [rows, hidden]: on the master, after an
  // encoder's step.
  [[nodiscard]] std::vector<float> hidden(std::int32_t rows) const;

 private:
  // Begins the schedules of emulated time with the run and, if `not_before` is given, with a step.
  void begin_schedules(std::int32_t i, Clock::time_point not_before);
  // Takes the records of finished steps: of all, or if `all` is not set at most of the first, and
  // only if there is room for another step.
  void take_done(bool all);
  [[nodiscard]] static Served served_of(const model::TaskGraph& graph,
                                        std::span<const TaskTime> records);

  const planner::Plan* plan_;
  DeviceRunOptions options_;
  StepGraphs graphs_;
  model::DeviceStorage storage_;
  model::CostModel costs_;
  std::unique_ptr<WeightWindow> window_;
  std::unique_ptr<Rehearsal> rehearsal_;  // null: none
  Compute compute_;
  Pacer pacer_;
  Runtime runtime_;
  planner::GraphCache served_graphs_;       // of a run that serves requests
  TimeLog times_;                           // of the present step or, if they are kept, of all
  std::optional<model::BufferRef> states_;  // the last hidden states of an encoder's step
  Tally tally_;
};

}  // namespace tandem::exec
