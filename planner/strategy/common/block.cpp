#include "planner/strategy/common/block.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace tandem::planner {

using model::BufferKind;
using model::BufferRef;
using model::Range;
using model::Task;
using model::TaskIndex;
using model::TaskKind;
using model::WeightBlock;

namespace {

constexpr BufferRef kHidden{BufferKind::hidden, 0};
constexpr BufferRef kNormed{BufferKind::normed, 0};
constexpr BufferRef kQuery{BufferKind::query, 0};
constexpr BufferRef kAttention{BufferKind::attention, 0};
constexpr BufferRef kActivation{BufferKind::activation, 0};
constexpr BufferRef kPartial{BufferKind::partial, 0};
constexpr BufferRef kReceive{BufferKind::receive, 0};
constexpr BufferRef kLogits{BufferKind::logits, 0};
constexpr BufferRef kCandidates{BufferKind::candidates, 0};

Task make(TaskKind kind, WeightBlock block, std::int32_t layer, Range rows, Range columns) {
  Task task;
  task.kind = kind;
  task.block = block;
  task.layer = layer;
  task.rows = rows;
  task.columns = columns;
  return task;
}

Task with(Task task, BufferRef input, BufferRef output) {
  task.input = input;
  task.output = output;
  return task;
}

}  // namespace

std::vector<Range> sampled_runs(const model::Batch& batch) {
  std::vector<Range> runs;
  std::int32_t end = 0;
  for (const model::Segment& segment : batch.segments) {
    end += segment.rows;
    for (std::int32_t row = end - segment.sampled; row < end; ++row) {
      const bool first = row == end - segment.sampled;
      if (first && !runs.empty() && runs.back().end == row) {
        runs.back().end = row + 1;
      } else {
        runs.push_back({row, row + 1});
      }
    }
  }
  return runs;
}

Range hidden_columns(const model::Transformer& transformer) {
  return {0, static_cast<std::int32_t>(transformer.hidden)};
}

TaskIndex send_hidden(model::TaskGraph& graph, const model::Transformer& transformer,
                      model::DeviceIndex from, model::DeviceIndex to, Range rows, TaskIndex after) {
  return send_hidden(graph, transformer, from, to, rows, {&after, 1});
}

TaskIndex send_hidden(model::TaskGraph& graph, const model::Transformer& transformer,
                      model::DeviceIndex from, model::DeviceIndex to, Range rows,
                      std::span<const TaskIndex> after) {
  Task task;
  task.kind = TaskKind::transfer;
  task.lane = model::LaneKind::channel;
  task.wire = graph.wire();
  task.device = from;
  task.peer = to;
  task.rows = rows;
  task.columns = hidden_columns(transformer);
  task.input = task.output = kHidden;
  return graph.add(task, after);
}

DeviceTasks::DeviceTasks(model::TaskGraph& graph, const model::Transformer& transformer,
                         model::DeviceIndex device, WindowTasks* window)
    : graph_(&graph),
      transformer_(&transformer),
      device_(device),
      window_(window),
      rows_{0, graph.batch().rows()},
      normed_(transformer.architecture().post_norm() ? kHidden : kNormed) {}

TaskIndex DeviceTasks::append(Task task, TaskIndex after, TaskIndex load) {
  task.device = device_;
  if (!awaited_.empty()) {
    wait(after);
    wait(load);
    const std::vector<TaskIndex> all = std::exchange(awaited_, {});
    return graph_->add(task, all);
  }
  std::array<TaskIndex, 2> dependencies{};
  std::size_t count = 0;
  for (const TaskIndex dependency : {after, load}) {
    if (dependency >= 0) dependencies.at(count++) = dependency;
  }
  return graph_->add(task, std::span<const TaskIndex>(dependencies.data(), count));
}

TaskIndex DeviceTasks::load(WeightBlock block, std::int32_t layer, Range columns) {
  return window_ == nullptr ? -1 : window_->load(device_, block, layer, columns);
}

TaskIndex DeviceTasks::computed(TaskIndex last) {
  if (window_ != nullptr) window_->computed(device_, last);
  return last;
}

TaskIndex DeviceTasks::norm(WeightBlock block, std::int32_t layer, Range rows, TaskIndex after,
                            TaskIndex load) {
  return append(with(make(TaskKind::norm, block, layer, rows, {}), kHidden, normed_), after, load);
}

TaskIndex DeviceTasks::pass_by(WeightBlock block, std::int32_t layer, TaskIndex after) {
  return normed_ == kHidden ? norm(block, layer, rows_, after) : after;
}

TaskIndex DeviceTasks::embed() {
  const bool fetches = window_ != nullptr && window_->fetches(device_);
  const Task task =
      make(fetches ? TaskKind::fetch : TaskKind::embed, WeightBlock::embedding, -1, rows_, {});
  return append(with(task, {}, kHidden), -1);
}

TaskIndex DeviceTasks::attention(std::int32_t layer, Range heads, TaskIndex after) {
  constexpr WeightBlock block = WeightBlock::attention;
  const auto step = [&](TaskKind kind, WeightBlock weights, BufferRef input, BufferRef output) {
    after = append(with(make(kind, weights, layer, rows_, heads), input, output), after);
  };
  after = norm(block, layer, rows_, after, load(block, layer, heads));
  step(TaskKind::project_qkv, block, normed_, kQuery);
  after = append(attend_task(layer, rows_, heads), after);
  step(TaskKind::project_out, block, kAttention, kPartial);
  return computed(after);
}

TaskIndex DeviceTasks::ffn(std::int32_t layer, Range columns, TaskIndex after) {
  constexpr WeightBlock block = WeightBlock::ffn;
  after = norm(block, layer, rows_, after, load(block, layer, columns));
  after = append(with(make(TaskKind::ffn_up, block, layer, rows_, columns), normed_, kActivation),
                 after);
  after = append(
      with(make(TaskKind::ffn_down, block, layer, rows_, columns), kActivation, kPartial), after);
  return computed(after);
}

TaskIndex DeviceTasks::add_partial(WeightBlock block, std::int32_t layer, TaskIndex after) {
  return add_partial(block, layer, {&after, 1}, -1);
}

std::vector<TaskIndex> DeviceTasks::normed_sum(WeightBlock block, std::int32_t layer, Range rows,
                                               std::span<const TaskIndex> sum) {
  if (!transformer_->architecture().sum_norms) return {sum.begin(), sum.end()};
  Task task = with(make(TaskKind::norm, block, layer, rows, {}), kPartial, kPartial);
  task.device = device_;
  std::vector<TaskIndex> there;
  std::ranges::copy_if(sum, std::back_inserter(there), [](TaskIndex made) { return made >= 0; });
  return {graph_->add(task, there)};
}

TaskIndex DeviceTasks::add_partial(WeightBlock block, std::int32_t layer,
                                   std::span<const TaskIndex> partials, TaskIndex hidden_ready) {
  const std::vector<TaskIndex> sum = normed_sum(block, layer, rows_, partials);
  if (window_ != nullptr) window_->reduced(device_, sum);
  Task task =
      with(make(TaskKind::add, WeightBlock::none, layer, rows_, hidden_columns(*transformer_)),
           kPartial, kHidden);
  task.device = device_;
  std::vector<TaskIndex> dependencies(sum.begin(), sum.end());
  if (hidden_ready >= 0) dependencies.push_back(hidden_ready);
  return graph_->add(task, dependencies);
}

void DeviceTasks::wait(TaskIndex task) {
  if (task >= 0 && std::ranges::find(awaited_, task) == awaited_.end()) awaited_.push_back(task);
}

void DeviceTasks::wait(std::span<const TaskIndex> tasks) {
  for (const TaskIndex task : tasks) wait(task);
}

void DeviceTasks::begin_block(WeightBlock block, std::int32_t layer, Range columns) {
  wait(load(block, layer, columns));
}

TaskIndex DeviceTasks::norm_rows(WeightBlock block, std::int32_t layer, Range rows) {
  return norm(block, layer, rows, -1);
}

TaskIndex DeviceTasks::first_product(WeightBlock block, std::int32_t layer, Range rows,
                                     Range columns, std::int16_t visitor) {
  const bool attention = block == WeightBlock::attention;
  const TaskKind kind = attention ? TaskKind::project_qkv : TaskKind::ffn_up;
  Task task =
      with(make(kind, block, layer, rows, columns), normed_, attention ? kQuery : kActivation);
  task.visitor = visitor;
  return append(task, -1);
}

Task DeviceTasks::attend_task(std::int32_t layer, Range rows, Range heads) const {
  Task task =
      with(make(TaskKind::attend, WeightBlock::none, layer, rows, heads), kQuery, kAttention);
  task.window = static_cast<std::int32_t>(transformer_->window_of(layer));
  task.later_keys = transformer_->architecture().mask != model::Mask::causal;
  return task;
}

TaskIndex DeviceTasks::attend(std::int32_t layer, Range rows, Range heads) {
  return append(attend_task(layer, rows, heads), -1);
}

namespace {

Task second(WeightBlock block, std::int32_t layer, Range rows, Range columns, BufferRef output) {
  const bool attention = block == WeightBlock::attention;
  const TaskKind kind = attention ? TaskKind::project_out : TaskKind::ffn_down;
  return with(make(kind, block, layer, rows, columns), attention ? kAttention : kActivation,
              output);
}

}  // namespace

TaskIndex DeviceTasks::second_product(WeightBlock block, std::int32_t layer, Range rows,
                                      Range columns) {
  return append(second(block, layer, rows, columns, kPartial), -1);
}

TaskIndex DeviceTasks::add_product(WeightBlock block, std::int32_t layer, Range rows, Range columns,
                                   std::int16_t visitor) {
  Task task = second(block, layer, rows, columns, kReceive);
  task.visitor = visitor;
  return append(
      with(make(TaskKind::add, WeightBlock::none, layer, rows, hidden_columns(*transformer_)),
           kReceive, kPartial),
      append(task, -1));
}

TaskIndex DeviceTasks::add_rows(WeightBlock block, std::int32_t layer, Range rows,
                                std::span<const TaskIndex> partials) {
  const std::vector<TaskIndex> sum = normed_sum(block, layer, rows, partials);
  if (window_ != nullptr) window_->reduced(device_, sum);
  wait(sum);
  return append(
      with(make(TaskKind::add, WeightBlock::none, layer, rows, hidden_columns(*transformer_)),
           kPartial, kHidden),
      -1);
}

TaskIndex DeviceTasks::after_attention(std::int32_t layer, Range rows) {
  const Range heads{0, static_cast<std::int32_t>(transformer_->heads)};
  const Range columns{0, static_cast<std::int32_t>(transformer_->intermediate)};
  TaskIndex made = second_product(WeightBlock::attention, layer, rows, heads);
  add_rows(WeightBlock::attention, layer, rows, {&made, 1});
  norm_rows(WeightBlock::ffn, layer, rows);
  first_product(WeightBlock::ffn, layer, rows, columns);
  made = second_product(WeightBlock::ffn, layer, rows, columns);
  return add_rows(WeightBlock::ffn, layer, rows, {&made, 1});
}

TaskIndex DeviceTasks::finish(TaskIndex after) {
  if (!transformer_->architecture().generates()) return norm(WeightBlock::head, -1, rows_, after);
  const std::vector<Range> runs = sampled_runs(graph_->batch());
  for (const std::span<const Range> some : passes(runs)) after = sample(some, logits(some, after));
  return after;
}

std::vector<std::span<const Range>> DeviceTasks::passes(std::span<const Range> runs) const {
  std::vector<std::span<const Range>> some;
  if (window_ != nullptr && window_->fetches(device_)) {
    // Tiles come from the disk once, for all rows: each keeps its logits.
    if (!runs.empty()) some.push_back(runs);
  } else {
    for (std::size_t i = 0; i < runs.size(); ++i) some.push_back(runs.subspan(i, 1));
  }
  return some;
}

TaskIndex DeviceTasks::logits(std::span<const Range> runs, TaskIndex after) {
  constexpr WeightBlock block = WeightBlock::head;
  const Range vocabulary{0, static_cast<std::int32_t>(transformer_->vocab)};
  const std::span<const Range> tiles =
      window_ == nullptr ? std::span<const Range>(&vocabulary, 1) : window_->head_tiles(device_);
  for (const Range run : runs) after = norm(block, -1, run, after);
  for (const Range tile : tiles) {
    TaskIndex loaded = load(block, -1, tile);
    for (const Range run : runs) {
      const Task task = make(TaskKind::lm_head, block, -1, run, tile);
      after = append(with(task, normed_, kLogits), after, loaded);
      loaded = -1;
    }
    computed(after);
  }
  return after;
}

TaskIndex DeviceTasks::sample(std::span<const Range> runs, TaskIndex after) {
  const Range vocabulary{0, static_cast<std::int32_t>(transformer_->vocab)};
  return sample(runs, make(TaskKind::sample, WeightBlock::none, -1, {}, vocabulary), kLogits,
                after);
}

TaskIndex DeviceTasks::sample(std::span<const Range> runs, Range all, Range columns,
                              TaskIndex after) {
  Task task = make(TaskKind::sample, WeightBlock::none, -1, {}, all);
  task.chosen = columns;
  return sample(runs, task, kCandidates, after);
}

TaskIndex DeviceTasks::sample(std::span<const Range> runs, Task task, BufferRef from,
                              TaskIndex after) {
  for (const Range run : runs) {
    for (std::int32_t row = run.begin; row < run.end; ++row) {
      task.rows = {row, row + 1};
      after = append(with(task, from, {}), after);
    }
  }
  return after;
}

TaskIndex DeviceTasks::shortlist(std::span<const Range> runs, Range vocabulary, Range chosen,
                                 TaskIndex after) {
  for (const Range run : runs) {
    Task task = make(TaskKind::shortlist, WeightBlock::none, -1, run, vocabulary);
    task.chosen = chosen;
    after = append(with(task, kLogits, kCandidates), after);
  }
  return after;
}

}  // namespace tandem::planner
