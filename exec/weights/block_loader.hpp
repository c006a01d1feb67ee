#pragma once

// What a disk lane needs to know of weights: that blocks can be brought into memory.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "model/base/range.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::exec {

struct LayoutBlock;

// A block in memory: until the load that takes its place.
struct LoadedBlock {
  const LayoutBlock* layout = nullptr;
  model::Range rows{};                 // of the vocabulary: a tile of the LM head; else empty
  const std::byte* weights = nullptr;  // the block's first, or the tile's
};

// `block` counts the streamed blocks of a device in the order of a step. load() is for one thread.
class BlockLoader {
 public:
  virtual ~BlockLoader() = default;
  // The block that a load or a release names. Throws Error if this device does not stream it.
  [[nodiscard]] virtual std::size_t find(const model::Task& task) const = 0;
  // Brings `block` into the place of the oldest of its class. Allocates nothing. Throws Error if
  // it cannot be read, and soon after `stop` becomes true.
  [[nodiscard]] virtual LoadedBlock load(std::size_t block, const std::atomic<bool>& stop) = 0;
};

}  // namespace tandem::exec
