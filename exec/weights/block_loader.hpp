#pragma once

// The disk lane's interface to weights: loads of blocks into memory.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "model/base/range.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::exec {

struct LayoutBlock;

// A block in memory, until the next load into its place.
struct LoadedBlock {
  const LayoutBlock* layout = nullptr;
  model::Range rows{};                 // of the vocabulary: a tile of the LM head; else empty
  const std::byte* weights = nullptr;  // the block's first, or the tile's
};

// `block` numbers a device's streamed blocks in the order of a step. load() is for one thread.
class BlockLoader {
 public:
  virtual ~BlockLoader() = default;
  // Returns the block that a load or release names. Throws Error if this device does not stream it.
  [[nodiscard]] virtual std::size_t find(const model::Task& task) const = 0;
  // Loads `block` into the slot of the oldest of its class. Allocates nothing. Throws Error if it
  // cannot be read, and soon after `stop` becomes true.
  [[nodiscard]] virtual LoadedBlock load(std::size_t block, const std::atomic<bool>& stop) = 0;
};

}  // namespace tandem::exec
