#include "exec/runtime/device_run.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "exec/machine/available_memory.hpp"
#include "exec/machine/process_facts.hpp"
#include "exec/weights/source/layout.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/graph/conflicts.hpp"
#include "model/graph/work.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::exec {
namespace {

const model::Device& device_of(const planner::Plan& plan, model::DeviceIndex self) {
  return plan.cluster.devices()[static_cast<std::size_t>(self)];
}

model::Extents extents_of(const RunOptions& run) {
  return run.serves() ? planner::serving_extents(run.needs())
                      : planner::extents_of(run.needs(), run.scored_rows);
}

ComputeLimits limits_of(const DeviceRunOptions& options, const model::DeviceStorage& storage) {
  const model::Extents extents = extents_of(options.run);
  return {.max_rows = static_cast<std::int32_t>(extents.rows),
          .cache_positions = extents.positions,
          .sequences = static_cast<std::int32_t>(extents.sequences),
          .logit_rows = static_cast<std::int32_t>(extents.sampled),
          .buffers = storage.buffers,
          .threads = options.threads,
          .kernels = options.kernels,
          .may_spin = options.run.pace == Pace::real};
}

// Each text's own length counts, whatever the others or the plan reserve.
std::vector<std::int32_t> long_sequences_of(const planner::Plan& plan, const RunOptions& run) {
  if (run.serves()) return run.long_sequences;
  if (plan.model.rotates_long(run.workload.positions())) return {0};
  return {};
}

// Returns the steps that may be in flight.
std::int32_t steps_of(const RunOptions& run) {
  return static_cast<std::int32_t>(
      std::clamp<std::int64_t>(run.capacity.steps, 1, planner::kMostSteps));
}

// Returns the rate of an emulated disk; 0: the real one.
double disk_rate(const planner::Plan& plan, const DeviceRunOptions& options) {
  if (options.run.pace == Pace::real) return 0.0;
  return device_of(plan, options.self).disk_bandwidth.value() / options.run.dilation;
}

PacerOptions pacer_options(const planner::Plan& plan, const DeviceRunOptions& options,
                           const model::CostModel& costs, CacheRefill* refill) {
  return {.pace = options.run.pace,
          .slowdown = device_of(plan, options.self).slowdown,
          .costs = &costs,
          .disk_rate = disk_rate(plan, options),
          .dilation = options.run.dilation,
          // At nominal pace the order of computing does not matter.
          .turn = options.run.pace == Pace::measured ? options.turn : nullptr,
          .messages = options.run.overhead ? &*options.run.overhead : nullptr,
          .whole_machine = options.threads > 1,
          .refill = refill};
}

// For a device whose processor would keep the weights of all its tasks in its cache while it waits.
std::unique_ptr<Rehearsal> rehearsal_of(const planner::Plan& plan, const DeviceRunOptions& options,
                                        const Shard& shard, bool streams,
                                        const model::TaskGraph& one_token,
                                        const ComputeLimits& limits) {
  const bool rehearses =
      options.run.pace == Pace::measured && options.turn != nullptr && options.threads == 1 &&
      !streams && shard.bytes() <= Rehearsal::kMostBytes && plan.model.architecture().generates();
  if (!rehearses) return nullptr;
  return std::make_unique<Rehearsal>(one_token, options.self, plan.model, shard, limits);
}

// Returns the description of a run for messages.
std::string subject_of(const RunOptions& run) {
  if (run.serves()) return to_text(run.needs()) + ",";
  return std::to_string(run.workload.prompt_tokens) + " prompt and " +
         std::to_string(run.workload.new_tokens) + " new tokens";
}

// A run may be shorter or longer than planned, as long as every device can hold it. A plan whose
// devices could never hold it was not made by the planner.
RunOptions checked(const planner::Plan& plan, const RunOptions& run) {
  run.workload.validate(plan.model);
  // Refuses lengths that the plan's strategy is not made for.
  if (!run.serves()) static_cast<void>(planner::GenerationSteps(plan, run.workload));
  planner::check_budgets(plan, planner::predicted_memory(plan, extents_of(run)),
                         "run: " + subject_of(run) + " need",
                         run.serves() ? "use a smaller capacity, or plan for these requests"
                                      : "use a shorter prompt, or plan for this length");
  return run;
}

// Where `graph` leaves the last hidden states of its rows on device `self`; nothing unless that is
// an encoder's master.
std::optional<model::BufferRef> states_of(const model::Transformer& transformer,
                                          const model::TaskGraph& graph, model::DeviceIndex self) {
  if (transformer.architecture().generates()) return std::nullopt;
  const auto last = std::ranges::find_if(graph.tasks(), [self](const model::Task& task) {
    return task.device == self && task.kind == model::TaskKind::norm &&
           task.block == model::WeightBlock::head;
  });
  return last == graph.tasks().end() ? std::nullopt : std::optional(last->output);
}

// Builds that check themselves refuse a lowering that does not order what its tasks do.
void prepare(Runtime& runtime, const model::TaskGraph& graph) {
#ifdef TANDEM_CHECKS_ORDER
  if (!runtime.is_prepared(graph)) model::require_ordered(graph);
#endif
  runtime.prepare(graph);
}

}  // namespace

void check_memory(const planner::Plan& plan, model::DeviceIndex self, const RunOptions& run,
                  double held) {
  check_memory(plan, std::span(&self, 1), run, 0.0, held);
}

void check_memory(const planner::Plan& plan, std::span<const model::DeviceIndex> devices,
                  const RunOptions& run, double more, double held) {
  const std::vector<model::MemoryUse> memory = planner::predicted_memory(plan, extents_of(run));
  double need = more - held;
  for (const model::DeviceIndex d : devices) {
    const model::MemoryUse& use = memory[static_cast<std::size_t>(d)];
    // The program itself is there already, its sessions are not.
    need += use.total() - plan.profiles[static_cast<std::size_t>(d)].program_bytes;
  }
  const AvailableMemory available = available_memory();
  if (need <= available.bytes) return;
  const bool one = devices.size() == 1;
  throw Error((one ? "device " + device_of(plan, devices.front()).name + ": the plan needs "
                   : std::to_string(devices.size()) + " devices on this machine: they need ") +
              model::to_text(model::Bytes{need + held}) + " of memory" + (one ? "" : " together") +
              ", but " + model::to_text(model::Bytes{available.bytes + held}) +
              " are available in " + available.bound + "; close programs" +
              (one ? ", or plan with a smaller budget for it" : ", or emulate a smaller model"));
}

model::DeviceStorage storage_of(const planner::Plan& plan, const RunOptions& run,
                                model::DeviceIndex self) {
  return std::move(planner::storage_of(plan, extents_of(run)).at(static_cast<std::size_t>(self)));
}

StepGraphs::StepGraphs(const planner::Plan& plan, const planner::Workload& workload)
    : StepGraphs(plan, RunOptions{.workload = workload}) {}

StepGraphs::StepGraphs(const planner::Plan& plan, const RunOptions& run)
    : workload_(checked(plan, run).workload),
      prompt_(planner::find_strategy(plan.strategy).lower(plan, planner::prompt_batch(workload_))),
      decode_(planner::find_strategy(plan.strategy)
                  .lower(plan, planner::decode_batch(
                                   static_cast<std::int32_t>(workload_.prompt_tokens)))) {}

std::int32_t StepGraphs::count() const { return static_cast<std::int32_t>(workload_.steps()); }

const model::TaskGraph& StepGraphs::at(std::int32_t i) {
  require(0 <= i && i < count(), "StepGraphs: step out of range");
  if (i == 0) return prompt_;
  const auto past = static_cast<std::int32_t>(workload_.prompt_tokens) + i - 1;
  decode_.advance({&past, 1});
  return decode_;
}

const model::TaskGraph& StepGraphs::first_token() {
  const std::int32_t past = 0;
  decode_.advance({&past, 1});
  return decode_;
}

std::vector<double> record_bytes(const planner::Plan& plan, const StepGraphs& graphs,
                                 const RunOptions& run) {
  const std::size_t devices = plan.cluster.devices().size();
  if (!run.keep_records) return std::vector<double>(devices, 0.0);
  if (run.serves()) return planner::most_records(plan, run.capacity, run.most_steps);
  std::vector<double> bytes = model::record_bytes(graphs.prompt(), devices);
  const std::vector<double> of_token = model::record_bytes(graphs.decode(), devices);
  const auto tokens = static_cast<double>(graphs.count() - 1);
  for (std::size_t d = 0; d < devices; ++d) bytes[d] += tokens * of_token[d];
  return bytes;
}

void check_record_memory(const planner::Plan& plan, const StepGraphs& graphs,
                         std::span<const model::DeviceIndex> here, const RunOptions& run,
                         double held) {
  if (!run.keep_records) return;
  const std::vector<double> timeline =
      planner::timeline_bytes(plan, record_bytes(plan, graphs, run));
  const std::string length = run.serves() ? "up to " + std::to_string(run.most_steps) + " steps"
                                          : std::to_string(run.workload.new_tokens) + " new tokens";
  planner::check_timeline_budgets(plan, extents_of(run), timeline, "run: a timeline of " + length);
  double more = 0.0;
  for (const model::DeviceIndex d : here) more += timeline[static_cast<std::size_t>(d)];
  check_memory(plan, here, run, more, held);
}

bool streams(const StepGraphs& graphs, model::DeviceIndex self) {
  return std::ranges::any_of(graphs.decode().tasks(), [self](const model::Task& task) {
    return task.device == self &&
           (task.kind == model::TaskKind::load || task.kind == model::TaskKind::fetch);
  });
}

DeviceWeights open_weights_of(const planner::Plan& plan, model::DeviceIndex self,
                              const StepGraphs& graphs, std::span<const BlockFile> files,
                              ResidentBlocks& memory, const WeightProgress& progress) {
  const planner::DevicePlan& device = plan.devices[static_cast<std::size_t>(self)];
  std::uint64_t total = 0;
  for (const BlockFile& file : files) total += file.bytes;
  std::uint64_t before = 0;
  const auto load = [&](const BlockFile& file) {
    auto block = memory.load(file, [&](std::uint64_t done, std::uint64_t /*total*/) {
      if (progress) progress(before + done, total);
    });
    before += file.bytes;
    return block;
  };
  std::set<std::string> kept;
  if (!streams(graphs, self)) {
    for (const BlockFile& file : files) kept.insert(file.id);
    memory.keep_only(kept);
    const ShardLayout layout = layout_of(plan.model, device.share);
    require(files.size() == layout.blocks.size(), "open_weights_of: a file for each block");
    std::vector<Shard::Block> blocks;
    for (std::size_t i = 0; i < files.size(); ++i)
      blocks.push_back({load(files[i]), layout.blocks[i].bytes});
    return {Shard::of_blocks(plan.model, device.share, std::move(blocks)), nullptr};
  }
  std::vector<WindowBlock> blocks;
  for (const model::Task& task : graphs.decode().tasks()) {
    if (task.device != self || task.kind != model::TaskKind::load) continue;
    const bool tile = task.block == model::WeightBlock::head;
    blocks.push_back(
        {.block = task.block, .layer = task.layer, .rows = tile ? task.columns : model::Range{}});
  }
  const planner::WindowMemory slots =
      planner::window_memory(plan.model, device.share, device.window);
  auto window = std::make_unique<WeightWindow>(
      files, plan.model, device.share, blocks,
      SlotCounts{.attention = slots.attention.count,
                 .ffn = slots.ffn.count,
                 .attention_bytes = static_cast<std::uint64_t>(slots.attention.bytes),
                 .ffn_bytes = static_cast<std::uint64_t>(slots.ffn.bytes)},
      WindowFileOptions{.before_slots = [&](const std::vector<bool>& whole) {
        for (std::size_t i = 0; i < files.size(); ++i) {
          if (whole[i]) kept.insert(files[i].id);
        }
        memory.keep_only(kept);
      }});
  Shard resident = window->read_resident(load);
  return {std::move(resident), std::move(window)};
}

DeviceRun::DeviceRun(const planner::Plan& plan, const DeviceRunOptions& options,
                     DeviceWeights weights, Transport* transport)
    : plan_(&plan),
      options_(options),
      graphs_(plan, options.run),
      storage_(storage_of(plan, options.run, options.self)),
      costs_(plan.cost_model()),
      window_(std::move(weights.window)),
      rehearsal_(rehearsal_of(plan, options_, weights.shard, window_ != nullptr,
                              graphs_.first_token(), limits_of(options, storage_))),
      compute_(plan.model, std::move(weights.shard), limits_of(options, storage_)),
      pacer_(pacer_options(plan, options_, costs_, rehearsal_.get())),
      runtime_(compute_, transport, window_.get(), pacer_,
               {.device = options.self,
                .may_spin = options.run.pace == Pace::real,
                .disk_rate = disk_rate(plan, options),
                .storage = &storage_,
                .steps = steps_of(options.run),
                .on_failure = steps_of(options.run) > 1 ? options.on_failure : nullptr,
                .activity = options.activity}),
      served_graphs_(plan, [this](const model::TaskGraph& graph) { runtime_.forget(graph); }),
      tally_(options.self) {
  if (window_) compute_.set_embedding_rows(*window_);
  compute_.rotate_long(long_sequences_of(plan, options.run));
  prepare(runtime_, graphs_.prompt());
  prepare(runtime_, graphs_.decode());
  const std::size_t of_prompt = runtime_.records(graphs_.prompt());
  const std::size_t of_decode = runtime_.records(graphs_.decode());
  const auto steps = static_cast<std::size_t>(graphs_.count());
  std::size_t records = std::max(of_prompt, of_decode);
  if (options.run.keep_records) {
    const std::vector<double> all = record_bytes(plan, graphs_, options.run);
    records = static_cast<std::size_t>(all.at(static_cast<std::size_t>(options.self)) /
                                       model::kRecordBytes);
  }
  times_.reserve(records);
  tally_.reserve(steps, {&graphs_.prompt(), &graphs_.decode()});
}

void DeviceRun::warm_up() {
  const std::int32_t steps = std::max(2, steps_of(options_.run));  // every lane
  const bool embeds = plan_->devices[static_cast<std::size_t>(options_.self)].share.embedding;
  TimeLog forgotten;
  for (std::int32_t i = 0; i < steps; ++i) {
    if (embeds) compute_.set_tokens(std::array{std::int32_t{0}});
    compute_.reset();
    static_cast<void>(runtime_.step(
        i, graphs_.first_token(), i + 1 < steps ? &graphs_.decode() : nullptr,
        [](const Scores&) { return 0; }, forgotten));
  }
  compute_.reset();
  runtime_.forget_bytes_sent();
  pacer_ = Pacer(pacer_options(*plan_, options_, costs_, rehearsal_.get()));
}

std::int32_t DeviceRun::step(std::int32_t i, std::span<const std::int32_t> tokens,
                             const SampleToken& sample) {
  if (!tokens.empty()) compute_.set_tokens(tokens);
  if (i == 0) {  // the schedules begin with the run
    compute_.reset();
    pacer_.available(Clock::now());
    runtime_.disk_available(Clock::now());
  }
  const model::TaskGraph* next = i + 1 < graphs_.count() ? &graphs_.decode() : nullptr;
  if (!options_.run.keep_records) times_.clear();
  const std::size_t before = times_.size();
  const model::TaskGraph& graph = graphs_.at(i);
  const std::int32_t token = runtime_.step(i, graph, next, sample, times_);
  tally_.add(graph, std::span(times_).subspan(before));
  states_ = states_of(plan_->model, graph, options_.self);
  return token;
}

// Finding the graph is no part of an emulated device's work.
void DeviceRun::begin_schedules(std::int32_t i, Clock::time_point not_before) {
  const bool waited = not_before != Clock::time_point{};
  const Clock::time_point begin = waited ? not_before : Clock::now();
  if (i == 0) runtime_.disk_available(begin);
  if (i == 0 || waited) pacer_.available(begin);
}

std::optional<DeviceRun::Served> DeviceRun::serve(std::int32_t i, const model::Batch& batch,
                                                  std::span<const std::int32_t> tokens,
                                                  const SampleToken& sample,
                                                  Clock::time_point not_before) {
  const planner::Capacity& capacity = options_.run.capacity;
  const auto wrong = [](const model::Segment& segment) { return segment.sampled > 1; };
  if (!options_.run.serves() || batch.rows() > capacity.rows ||
      batch.sequences() > capacity.sequences || std::ranges::any_of(batch.segments, wrong)) {
    throw Error("step " + std::to_string(i) + " of " + std::to_string(batch.rows()) + " rows of " +
                std::to_string(batch.sequences()) + " sequences: expected at most " +
                std::to_string(capacity.rows) + " rows of " + std::to_string(capacity.sequences) +
                ", one sampled row each; install the same tandem on every device");
  }
  begin_schedules(i, not_before);
  const model::TaskGraph& graph = served_graphs_.graph_of(batch);
  prepare(runtime_, graph);
  if (!tokens.empty()) compute_.set_tokens(tokens);
  if (steps_of(options_.run) > 1) {
    take_done(false);
    runtime_.begin(i, graph, sample);
    if (runtime_.has_unfinished_last()) return std::nullopt;
    return served_of(graph, runtime_.last_records());
  }
  if (!options_.run.keep_records) times_.clear();
  const std::size_t before = times_.size();
  // The loads of later steps are the same for any batch.
  static_cast<void>(runtime_.step(i, graph, &graph, sample, times_));
  const std::span<const TaskTime> records = std::span(times_).subspan(before);
  if (options_.run.reports()) tally_.add(graph, records);
  return served_of(graph, records);
}

DeviceRun::Served DeviceRun::finish(const SampleToken& sample) {
  runtime_.finish(sample);
  return served_of(runtime_.last_graph(), runtime_.last_records());
}

void DeviceRun::take_done(bool all) {
  while (std::optional<Runtime::Done> done = runtime_.take_done(all)) {
    if (options_.run.reports()) tally_.add(*done->graph, done->log);
    if (options_.run.keep_records) times_.insert(times_.end(), done->log.begin(), done->log.end());
  }
}

void DeviceRun::settle() {
  if (steps_of(options_.run) > 1) take_done(true);
}

DeviceRun::Served DeviceRun::served_of(const model::TaskGraph& graph,
                                       std::span<const TaskTime> records) {
  Served served;
  for (const TaskTime& time : records) {
    const model::Task& task = graph.tasks()[static_cast<std::size_t>(time.of())];
    if (!time.copy() && task.lane != model::LaneKind::cpu) continue;
    served.end_ns = std::max(served.end_ns, time.end_ns);
    if (!time.copy() && task.kind == model::TaskKind::sample)
      served.sampled_ns.push_back(time.end_ns);
  }
  return served;
}

void DeviceRun::read(std::int32_t i, const model::Batch& batch,
                     std::span<const std::int32_t> tokens, const SampleToken& sample,
                     Clock::time_point not_before) {
  const std::int64_t most = options_.run.workload.prompt_tokens;
  const bool one_text =
      batch.segments.size() == 1 && batch.segments[0].sequence == 0 && batch.segments[0].past == 0;
  if (!one_text || batch.rows() > most || batch.segments[0].sampled > options_.run.scored_rows) {
    throw Error("step " + std::to_string(i) + " of " + std::to_string(batch.rows()) +
                " rows: expected a text of at most " + std::to_string(most) +
                " tokens, of which at most " + std::to_string(options_.run.scored_rows) +
                " are scored; install the same tandem on every device");
  }
  begin_schedules(i, not_before);
  const model::TaskGraph graph = planner::find_strategy(plan_->strategy).lower(*plan_, batch);
  prepare(runtime_, graph);
  compute_.reset();  // the text before
  compute_.rotate_long(
      long_sequences_of(*plan_, {.workload = {.prompt_tokens = batch.rows(), .new_tokens = 1}}));
  if (!tokens.empty()) compute_.set_tokens(tokens);
  TimeLog forgotten;
  forgotten.reserve(runtime_.records(graph));
  static_cast<void>(runtime_.step(i, graph, nullptr, sample, forgotten));
  states_ = states_of(plan_->model, graph, options_.self);
  runtime_.forget(graph);
}

std::vector<float> DeviceRun::hidden(std::int32_t rows) const {
  require(states_.has_value(), "hidden states are the master's, of an encoder");
  const model::Range columns{0, static_cast<std::int32_t>(plan_->model.hidden)};
  std::vector<float> states(static_cast<std::size_t>(rows) *
                            static_cast<std::size_t>(columns.size()));
  compute_.read_rows(*states_, {0, rows}, columns, states);
  return states;
}

void DeviceRun::cancel(const std::string& reason) noexcept {
  if (options_.turn != nullptr) options_.turn->cancel();
  runtime_.cancel(reason);
}

DeviceReport DeviceRun::report() const {
  DeviceReport report;
  report.peak_memory = compute_.allocated();
  report.mapped_bytes = compute_.mapped_bytes();
  report.peak_memory.buffers += runtime_.allocated_bytes();
  if (window_) report.peak_memory.weights += window_->allocated_bytes();
  report.peak_memory.program = 0.0;
  report.peak_memory.program = std::max(0.0, peak_resident_bytes() - report.peak_memory.total());
  report.bytes_sent = runtime_.bytes_sent();
  report.kernels = options_.kernels;
  report.tally = tally_.total();
  report.mean_late_s = pacer_.mean_late_s();
  report.max_late_s = std::max(pacer_.max_late_s(), runtime_.disk_late_s());
  report.clock_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
  return report;
}

}  // namespace tandem::exec
