#include "model/accesses.hpp"

#include <array>

namespace tandem::model {

std::span<const BufferKind> also_read(TaskKind kind) {
  static constexpr std::array kCache{BufferKind::key_value};
  static constexpr std::array kTokens{BufferKind::tokens};
  if (kind == TaskKind::attend) return kCache;
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

Area area_of(const Task& task, BufferKind buffer) {
  if (buffer == BufferKind::logits)
    return {kEverything, task.kind == TaskKind::sample ? kEverything : task.columns};
  if (task.kind == TaskKind::transfer || task.kind == TaskKind::add)
    return {task.rows, task.columns};
  if (buffer == BufferKind::key_value && task.kind == TaskKind::attend)
    return {task.later_keys ? kEverything : Range{0, task.rows.end}, kEverything};
  return {task.rows, kEverything};
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
  if (task.kind == TaskKind::add) add(task.output, false);
  for (const BufferKind kind : also_read(task.kind)) add({.kind = kind}, false);
  add(task.output, true);
  for (const BufferKind kind : also_written(task.kind)) add({.kind = kind}, true);
  return accesses;
}

}  // namespace tandem::model
