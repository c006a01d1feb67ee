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
using model::WeightBlock;

namespace {

constexpr BufferRef kHidden{BufferKind::hidden};
constexpr BufferRef kPartial{BufferKind::partial};
constexpr BufferRef kReceive{BufferKind::receive};

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
  return graph.add(
      model::transfer_task({.device = from, .rows = rows, .columns = hidden_columns(transformer)},
                           to, kHidden, kHidden, graph.wire()),
      after);
}

DeviceTasks::DeviceTasks(model::TaskGraph& graph, const model::Transformer& transformer,
                         model::DeviceIndex device, WindowTasks* window)
    : graph_(&graph),
      transformer_(&transformer),
      device_(device),
      window_(window),
      rows_{0, graph.batch().rows()},
      normed_(transformer.architecture().post_norm() ? kHidden : BufferRef{BufferKind::normed}) {}

model::TaskExtent DeviceTasks::extent(std::int32_t layer, Range rows, Range columns) const {
  return {.device = device_, .layer = layer, .rows = rows, .columns = columns};
}

TaskIndex DeviceTasks::append(const Task& task, TaskIndex after, TaskIndex load) {
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
  return append(model::norm_task(extent(layer, rows, {}), block, kHidden, normed_), after, load);
}

TaskIndex DeviceTasks::pass_by(WeightBlock block, std::int32_t layer, TaskIndex after) {
  return normed_ == kHidden ? norm(block, layer, rows_, after) : after;
}

TaskIndex DeviceTasks::embed() {
  const bool fetches = window_ != nullptr && window_->fetches(device_);
  return append(model::embed_task(device_, rows_, fetches), -1);
}

TaskIndex DeviceTasks::attention(std::int32_t layer, Range heads, TaskIndex after) {
  constexpr WeightBlock block = WeightBlock::attention;
  const model::TaskExtent all = extent(layer, rows_, heads);
  after = norm(block, layer, rows_, after, load(block, layer, heads));
  after = append(model::first_product_task(all, block, normed_), after);
  after = append(attend_task(layer, rows_, heads), after);
  return computed(append(model::second_product_task(all, block, kPartial), after));
}

TaskIndex DeviceTasks::ffn(std::int32_t layer, Range columns, TaskIndex after) {
  constexpr WeightBlock block = WeightBlock::ffn;
  const model::TaskExtent all = extent(layer, rows_, columns);
  after = norm(block, layer, rows_, after, load(block, layer, columns));
  after = append(model::first_product_task(all, block, normed_), after);
  return computed(append(model::second_product_task(all, block, kPartial), after));
}

TaskIndex DeviceTasks::add_partial(WeightBlock block, std::int32_t layer, TaskIndex after) {
  return add_partial(block, layer, {&after, 1}, -1);
}

std::vector<TaskIndex> DeviceTasks::normed_sum(WeightBlock block, std::int32_t layer, Range rows,
                                               std::span<const TaskIndex> sum) {
  if (!transformer_->architecture().sum_norms) return {sum.begin(), sum.end()};
  std::vector<TaskIndex> there;
  std::ranges::copy_if(sum, std::back_inserter(there), [](TaskIndex made) { return made >= 0; });
  return {graph_->add(model::norm_task(extent(layer, rows, {}), block, kPartial, kPartial), there)};
}

TaskIndex DeviceTasks::add_partial(WeightBlock block, std::int32_t layer,
                                   std::span<const TaskIndex> partials, TaskIndex hidden_ready) {
  const std::vector<TaskIndex> sum = normed_sum(block, layer, rows_, partials);
  if (window_ != nullptr) window_->reduced(device_, sum);
  std::vector<TaskIndex> dependencies(sum.begin(), sum.end());
  if (hidden_ready >= 0) dependencies.push_back(hidden_ready);
  return graph_->add(
      model::add_task(extent(layer, rows_, hidden_columns(*transformer_)), kPartial, kHidden),
      dependencies);
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
                                     Range columns, std::int16_t weights_slot) {
  return append(
      model::first_product_task(extent(layer, rows, columns), block, normed_, weights_slot), -1);
}

Task DeviceTasks::attend_task(std::int32_t layer, Range rows, Range heads) const {
  return model::attend_task(extent(layer, rows, heads),
                            {.window = static_cast<std::int32_t>(transformer_->window_of(layer)),
                             .causal = transformer_->architecture().mask == model::Mask::causal});
}

TaskIndex DeviceTasks::attend(std::int32_t layer, Range rows, Range heads) {
  return append(attend_task(layer, rows, heads), -1);
}

TaskIndex DeviceTasks::second_product(WeightBlock block, std::int32_t layer, Range rows,
                                      Range columns) {
  return append(model::second_product_task(extent(layer, rows, columns), block, kPartial), -1);
}

TaskIndex DeviceTasks::add_product(WeightBlock block, std::int32_t layer, Range rows, Range columns,
                                   std::int16_t weights_slot) {
  const TaskIndex product = append(
      model::second_product_task(extent(layer, rows, columns), block, kReceive, weights_slot), -1);
  return append(
      model::add_task(extent(layer, rows, hidden_columns(*transformer_)), kReceive, kPartial),
      product);
}

TaskIndex DeviceTasks::add_rows(WeightBlock block, std::int32_t layer, Range rows,
                                std::span<const TaskIndex> partials) {
  const std::vector<TaskIndex> sum = normed_sum(block, layer, rows, partials);
  if (window_ != nullptr) window_->reduced(device_, sum);
  wait(sum);
  return append(
      model::add_task(extent(layer, rows, hidden_columns(*transformer_)), kPartial, kHidden), -1);
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
    // Tiles are read from the disk once, for all rows: each keeps its logits.
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
      after = append(model::lm_head_task(extent(-1, run, tile), normed_), after, loaded);
      loaded = -1;
    }
    computed(after);
  }
  return after;
}

TaskIndex DeviceTasks::sample(std::span<const Range> runs, TaskIndex after) {
  return sample(runs, {0, static_cast<std::int32_t>(transformer_->vocab)}, {}, after);
}

TaskIndex DeviceTasks::sample(std::span<const Range> runs, Range all, Range chosen,
                              TaskIndex after) {
  for (const Range run : runs) {
    for (std::int32_t row = run.begin; row < run.end; ++row)
      after = append(model::sample_task(extent(-1, {row, row + 1}, all), chosen), after);
  }
  return after;
}

TaskIndex DeviceTasks::shortlist(std::span<const Range> runs, Range vocabulary, Range chosen,
                                 TaskIndex after) {
  for (const Range run : runs)
    after = append(model::shortlist_task(extent(-1, run, vocabulary), chosen), after);
  return after;
}

}  // namespace tandem::planner
