#pragma once

// What copying on write takes of a step: a sequence that first writes into a block of the cache
// which others have, too, gets a copy of the positions before. Every device copies the same
// positions, of its own layers and heads, before its first task of the step, which is the longer
// for it.

#include <cstdint>

#include "model/graph/block_table.hpp"
#include "model/graph/storage.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::model {

// Of one layer and head.
struct CopiedPositions {
  std::int64_t keys = 0;  // in whole panels, as they lie in memory
  std::int64_t values = 0;
  void add(const BlockTable::Copy& copy);
  [[nodiscard]] bool any() const { return values > 0; }
  bool operator==(const CopiedPositions&) const = default;
};

// Bytes that a device copies, with the cache that it declares; 0 without one (null).
[[nodiscard]] Bytes copied_bytes(const BufferDeclaration* cache, const CopiedPositions& copied);
// The same of `device` in a step of `graph`.
[[nodiscard]] Bytes copied_bytes(const TaskGraph& graph, DeviceIndex device,
                                 const CopiedPositions& copied);

// Follows the cache through the steps of a run.
class CacheCopies {
 public:
  // Of the next step. A batch that does not continue a sequence counts as one whose sequence was
  // computed elsewhere, unshared. Throws logic_error for operations that BlockTable refuses.
  [[nodiscard]] CopiedPositions next(const Batch& batch);

 private:
  void append(std::int32_t sequence, Range positions, CopiedPositions& copied);
  BlockTable table_{0};
};

}  // namespace tandem::model
