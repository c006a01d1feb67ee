#pragma once

// What a task reads and writes of a device's storage: the one list that places messages among the
// tasks of a device (model/graph/message_schedule.hpp) and that conflicts are found by
// (model/graph/conflicts.hpp). A test of the executor holds its kernels against it.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "model/graph/task_graph.hpp"

namespace tandem::model {

// Buffers that an executor reads and writes for a task besides its input and output; of the cache,
// the task's layer. Whoever orders tasks and transfers must know of them.
[[nodiscard]] std::span<const BufferKind> also_read(TaskKind kind);
[[nodiscard]] std::span<const BufferKind> also_written(TaskKind kind);

// The same, but slots and what depends on the task, not on its kind alone: the softmax that an
// attention writes whose result will be merged, and those that a merge reads. None: kind none.
[[nodiscard]] BufferRef softmax_read(const Task& task);
[[nodiscard]] BufferRef softmax_written(const Task& task);
// What an attention reads that came from caches elsewhere; none: kind none.
[[nodiscard]] BufferRef arrived_read(const Task& task);
// Where an attend's or score's keys are; the list by which rows were gathered.
[[nodiscard]] BufferRef keys_read(const Task& task);
[[nodiscard]] BufferRef list_read(const Task& task);
// The weights of another device that a product reads; none: kind none.
[[nodiscard]] BufferRef gathered_weights_read(const Task& task);

// Rows and columns of a buffer.
struct Area {
  Range rows{};
  Range columns{};
  bool operator==(const Area&) const = default;
};
inline constexpr Range kEverything{0, std::numeric_limits<std::int32_t>::max()};

[[nodiscard]] inline bool meet(Range a, Range b) { return a.begin < b.end && b.begin < a.end; }
[[nodiscard]] inline bool meet(const Area& a, const Area& b) {
  return meet(a.rows, b.rows) && meet(a.columns, b.columns);
}
[[nodiscard]] inline bool within(const Area& inner, const Area& outer) {
  return outer.rows.contains(inner.rows) && outer.columns.contains(inner.columns);
}

// The elements of `buffer` that a task uses, at most: the rows and columns that it names if it
// copies or adds, else all columns of its rows. Rows of the cache are those of the batch whose
// positions are meant; attention reads all positions, but with a
// causal mask none of later rows. Logits and candidates have rows of their own: all of them, and
// the columns that an LM head, a shortlist or a transfer names. Rows of what has arrived of other
// caches are positions.
[[nodiscard]] Area area_of(const Task& task, BufferKind buffer);

// The columns of logits or candidates that a task names.
[[nodiscard]] Range sampled_columns(const Task& task, BufferKind buffer);

// The layer whose part of `buffer` a task of `layer` uses: only the cache has parts; else -1.
[[nodiscard]] inline std::int32_t cache_layer_of(BufferRef buffer, std::int32_t layer) {
  return buffer.kind == BufferKind::key_value ? layer : -1;
}

struct Access {
  BufferRef buffer{};
  std::int32_t layer = -1;  // of the cache, else -1
  Area area{};
  bool writes = false;
};

// All that `task` reads and writes of the storage of `device`, reads first. Of a transfer the
// sender's storage is read, the receiver's written. Weights are not among it: tasks name them by
// their block.
[[nodiscard]] std::vector<Access> accesses_of(const Task& task, DeviceIndex device);

// The rows of the batch whose positions the device's cache gets: all of them, and where the device
// declares a cache of so many blocks (BufferDeclaration::blocks) those that its tasks and what it
// receives write. Throws logic_error unless the latter are adjacent.
[[nodiscard]] Range cached_rows(const TaskGraph& graph, DeviceIndex device);

}  // namespace tandem::model
