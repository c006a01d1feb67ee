#include "model/graph/accesses.hpp"

#include <algorithm>
#include <array>

#include "model/base/error.hpp"

namespace tandem::model {

std::span<const BufferKind> also_read(TaskKind kind) {
  static constexpr std::array kTokens{BufferKind::tokens};
  if (kind == TaskKind::embed || kind == TaskKind::fetch) return kTokens;
  return {};
}

std::span<const BufferKind> also_written(TaskKind kind) {
  // Keys, and values of several sequences, wait in the attention buffer for their places.
  static constexpr std::array kStaged{BufferKind::key_value, BufferKind::attention,
                                      BufferKind::angles};
  static constexpr std::array kGated{BufferKind::gated};
  if (kind == TaskKind::project_qkv) return kStaged;
  if (kind == TaskKind::ffn_up) return kGated;
  return {};
}

BufferRef softmax_read(const Task& task) {
  if (task.kind != TaskKind::merge && task.kind != TaskKind::score) return {};
  return {BufferKind::softmax, task.input.slot};
}

BufferRef softmax_written(const Task& task) {
  if (task.kind != TaskKind::merge && !task.statistics) return {};
  return {BufferKind::softmax, task.output.slot};
}

BufferRef arrived_read(const Task& task) {
  if (!task.of_remote_kv) return {};
  return {BufferKind::remote_kv, 0};
}

BufferRef keys_read(const Task& task) {
  if (task.kind != TaskKind::attend && task.kind != TaskKind::score) return {};
  if (reads_gathered(task)) return {BufferKind::gathered, task.input.slot};
  return {BufferKind::key_value};
}

BufferRef list_read(const Task& task) {
  if (task.selection == 0) return {};
  return {BufferKind::selection, task.selection};
}

BufferRef gathered_weights_read(const Task& task) {
  if (task.weights_slot == 0) return {};
  return {BufferKind::gathered_weights, task.weights_slot};
}

Range sampled_columns(const Task& task, BufferKind buffer) {
  return task.kind == TaskKind::shortlist && buffer == BufferKind::candidates ? task.chosen
                                                                              : task.columns;
}

namespace {

// Returns the rows of keys: of the cache, of gathered rows, and of scores.
Range rows_of_keys(const Task& task) {
  if (reads_gathered(task)) return task.keys;
  return task.causal ? Range{0, task.rows.end} : kEverything;
}

// Rows of a list that a task reads or makes.
Range listed_rows(const Task& task) {
  if (task.kind == TaskKind::select) return task.keys;
  if (!reads_gathered(task)) return task.rows;
  return {std::min(task.keys.begin, task.rows.begin), std::max(task.keys.end, task.rows.end)};
}

// Returns whether the task names rows of `buffer` by a list.
bool names_rows(const Task& task, BufferKind buffer) {
  const bool moves =
      task.kind == TaskKind::gather || task.kind == TaskKind::merge || task.kind == TaskKind::add;
  return moves && task.selection > 0 && buffer != BufferKind::gathered;
}

}  // namespace

Area area_of(const Task& task, BufferKind buffer) {
  const bool moved = task.kind == TaskKind::transfer && moves_cache(task);
  if (moved && buffer == BufferKind::key_value) return {kEverything, task.columns};
  if (buffer == BufferKind::remote_kv) return {task.keys, moved ? task.columns : kEverything};
  if (of_sampled_rows(buffer))
    return {kEverything,
            task.kind == TaskKind::sample ? kEverything : sampled_columns(task, buffer)};
  if (task.kind == TaskKind::transfer) return {task.rows, task.columns};
  if (buffer == BufferKind::packed_kv || buffer == BufferKind::gathered_weights)
    return {kEverything, kEverything};
  if (buffer == BufferKind::selection) return {listed_rows(task), kEverything};
  const Range rows = names_rows(task, buffer) ? kEverything : task.rows;
  if (task.kind == TaskKind::add) return {rows, task.columns};
  const bool attends = task.kind == TaskKind::attend || task.kind == TaskKind::score;
  if (attends && (buffer == BufferKind::key_value || buffer == BufferKind::gathered))
    return {rows_of_keys(task), kEverything};
  if (task.kind == TaskKind::score && buffer == BufferKind::scores) return {task.keys, kEverything};
  return {rows, kEverything};
}

std::vector<Access> accesses_of(const Task& task, DeviceIndex device) {
  std::vector<Access> accesses;
  const auto add = [&](BufferRef buffer, bool writes) {
    if (buffer.kind == BufferKind::none) return;
    accesses.push_back({.buffer = buffer,
                        .layer = cache_layer_of(buffer, task.layer),
                        .area = area_of(task, buffer.kind),
                        .writes = writes});
  };
  if (task.lane == LaneKind::channel) {
    if (task.device == device) add(task.input, false);
    if (task.peer == device) add(task.output, true);
    return accesses;
  }
  if (task.lane != LaneKind::cpu || task.device != device) return accesses;
  add(task.input, false);
  if (task.kind == TaskKind::add || task.kind == TaskKind::merge) add(task.output, false);
  add(softmax_read(task), false);
  add(arrived_read(task), false);
  add(keys_read(task), false);
  add(list_read(task), false);
  add(gathered_weights_read(task), false);
  if (task.kind == TaskKind::merge) add(softmax_written(task), false);
  for (const BufferKind kind : also_read(task.kind)) add({.kind = kind}, false);
  add(task.output, true);
  add(softmax_written(task), true);
  if (reads_gathered(task)) add({.kind = BufferKind::packed_kv}, true);
  for (const BufferKind kind : also_written(task.kind)) add({.kind = kind}, true);
  return accesses;
}

Range cached_rows(const TaskGraph& graph, DeviceIndex device) {
  const BufferDeclaration* const cache =
      find_buffer(graph.declared(device), {.kind = BufferKind::key_value});
  if (cache == nullptr || cache->blocks == 0) return {0, graph.batch().rows()};
  std::vector<Range> written;
  for (const Task& task : graph.tasks()) {
    const bool projects = task.kind == TaskKind::project_qkv && task.device == device;
    const bool receives = task.lane == LaneKind::channel && task.peer == device &&
                          task.output.kind == BufferKind::key_value;
    if ((projects || receives) && !task.rows.empty()) written.push_back(task.rows);
  }
  std::ranges::sort(written, {}, &Range::begin);
  Range all = written.empty() ? Range{} : written.front();
  for (const Range rows : written) {
    require(rows.begin <= all.end, "rows that a device caches are adjacent");
    all.end = std::max(all.end, rows.end);
  }
  return all;
}

}  // namespace tandem::model
