#pragma once

// Copies on write of a step. A sequence that first writes into a shared block of the cache gets a
// copy of the block's earlier positions. Every device copies the same positions, of its own layers
// and heads, before its first task of the step, which takes that much longer.

#include <cstdint>

#include "model/graph/block_table.hpp"
#include "model/graph/storage.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::model {

// Per layer and head.
struct CopiedPositions {
  std::int64_t keys = 0;  // in whole panels, as stored
  std::int64_t values = 0;
  void add(const BlockTable::Copy& copy);
  [[nodiscard]] bool any() const { return values > 0; }
  bool operator==(const CopiedPositions&) const = default;
};

// Returns the bytes that a device copies, given the cache that it declares; 0 without one (null).
[[nodiscard]] Bytes copied_bytes(const BufferDeclaration* cache, const CopiedPositions& copied);
// Returns the same for `device` in a step of `graph`.
[[nodiscard]] Bytes copied_bytes(const TaskGraph& graph, DeviceIndex device,
                                 const CopiedPositions& copied);

// Follows the cache through the steps of a run.
class CacheCopies {
 public:
  // Returns the copies of the next step. A batch that does not continue a sequence counts as one
  // whose sequence was computed elsewhere, unshared. Throws logic_error as BlockTable does.
  [[nodiscard]] CopiedPositions next(const Batch& batch);

 private:
  void append(std::int32_t sequence, Range positions, CopiedPositions& copied);
  BlockTable table_{0};
};

}  // namespace tandem::model
