#include "model/graph/cache_copies.hpp"

#include <algorithm>

#include "model/graph/memory.hpp"

namespace tandem::model {

void CopiedPositions::add(const BlockTable::Copy& copy) {
  keys += (copy.positions + kKeyPanel - 1) / kKeyPanel * kKeyPanel;
  values += copy.positions;
}

Bytes copied_bytes(const BufferDeclaration* cache, const CopiedPositions& copied) {
  if (cache == nullptr) return Bytes{0.0};
  const std::int64_t columns = cache->columns / 2;  // of keys, and as many of values
  return Bytes{static_cast<double>(
      cache->bytes_of(cache->layers.size() * columns * (copied.keys + copied.values)))};
}

Bytes copied_bytes(const TaskGraph& graph, DeviceIndex device, const CopiedPositions& copied) {
  return copied_bytes(find_buffer(graph.declared(device), {.kind = BufferKind::key_value}), copied);
}

CopiedPositions CacheCopies::next(const Batch& batch) {
  CopiedPositions copied;
  for (const CacheOp& op : batch.cache) table_.apply(op);
  for (const Segment& segment : batch.segments) {
    const Range rows{segment.past, segment.past + segment.rows};
    if (table_.length(segment.sequence) != rows.begin &&
        table_.appended(segment.sequence) != rows) {
      table_.apply({.kind = CacheOpKind::free, .sequence = segment.sequence});
      append(segment.sequence, {0, rows.begin}, copied);
    }
    append(segment.sequence, rows, copied);
  }
  return copied;
}

void CacheCopies::append(std::int32_t sequence, Range positions, CopiedPositions& copied) {
  const std::int64_t needed = table_.needs(sequence, positions);
  if (needed > table_.free_blocks()) table_.grow(std::max(needed, table_.size()));
  for (const BlockTable::Copy& copy : table_.append(sequence, positions)) copied.add(copy);
}

}  // namespace tandem::model
