#pragma once

// The reads and writes of a task in a device's storage. Message scheduling
// (model/graph/message_schedule.hpp) and conflict detection (model/graph/conflicts.hpp) both use
// this list. A test holds the executor's kernels against it.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "model/graph/task_graph.hpp"

namespace tandem::model {

// Returns the buffers that an executor reads and writes for a task in addition to its input and
// output; of the cache, the task's layer. Code that orders tasks and transfers must consider them.
[[nodiscard]] std::span<const BufferKind> also_read(TaskKind kind);
[[nodiscard]] std::span<const BufferKind> also_written(TaskKind kind);

// Returns the softmax buffers that depend on the task's slots and not on its kind alone: the one
// that an attention writes for a later merge, and those that a merge reads. Kind none: no buffer.
[[nodiscard]] BufferRef softmax_read(const Task& task);
[[nodiscard]] BufferRef softmax_written(const Task& task);
// Returns the remote keys and values that an attention reads; kind none: it reads none.
[[nodiscard]] BufferRef arrived_read(const Task& task);
// Returns the buffer of an attend's or score's keys, and the list by which rows were gathered.
[[nodiscard]] BufferRef keys_read(const Task& task);
[[nodiscard]] BufferRef list_read(const Task& task);
// Returns the gathered weights that a product reads; kind none: it uses the device's own.
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

// Returns the elements of `buffer` that a task uses at most. Copies and sums use the rows and
// columns that they name, other tasks all columns of their rows. Rows of the cache are the batch
// rows at those positions; attention reads all positions, with a causal mask none of later rows.
// Logits and candidates have rows of their own: a task uses all of them, in the columns that an LM
// head, a shortlist or a transfer names. Rows of remote KV are positions.
[[nodiscard]] Area area_of(const Task& task, BufferKind buffer);

// Returns the columns of logits or candidates that a task names.
[[nodiscard]] Range sampled_columns(const Task& task, BufferKind buffer);

// Returns the layer of `buffer` that a task of `layer` uses: only the cache has layers; else -1.
[[nodiscard]] inline std::int32_t cache_layer_of(BufferRef buffer, std::int32_t layer) {
  return buffer.kind == BufferKind::key_value ? layer : -1;
}

struct Access {
  BufferRef buffer{};
  std::int32_t layer = -1;  // of the cache, else -1
  Area area{};
  bool writes = false;
};

// Returns all reads and writes of `task` in the storage of `device`, reads first. A transfer reads
// the sender's storage and writes the receiver's. Weights are excluded: tasks name them by block.
[[nodiscard]] std::vector<Access> accesses_of(const Task& task, DeviceIndex device);

// Returns the batch rows whose positions the device caches: all rows, or, on a device that declares
// a cache of a given number of blocks (BufferDeclaration::blocks), the rows that its tasks and its
// incoming transfers write. Throws logic_error unless those rows are adjacent.
[[nodiscard]] Range cached_rows(const TaskGraph& graph, DeviceIndex device);

}  // namespace tandem::model
