#pragma once

// The memory scheduler's window: the weight blocks that a device streams from its disk, and the
// memory of streamed and resident weights. TPI-LLM (arXiv 2410.00531), section 3.3. Extended below
// its minimum: embedding rows are fetched one by one, and the LM head streams through the window in
// tiles.

#include <cstdint>
#include <vector>

#include "model/graph/memory.hpp"
#include "model/graph/task_graph.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::planner {

// Page size of direct reads.
inline constexpr double kWindowPage = 4096.0;

struct Window {
  // Streamed blocks in memory at once, the one that computes included; 0: all weights are resident.
  std::int32_t blocks = 0;
  // The FFN blocks of layers 0, T, 2 T, ... stay resident, outside the window; 0: none.
  std::int32_t retain = 0;
  [[nodiscard]] bool streams() const { return blocks > 0; }
  [[nodiscard]] bool retains(std::int32_t layer) const { return retain > 0 && layer % retain == 0; }
  bool operator==(const Window&) const = default;
};

struct StreamedBlock {
  model::WeightBlock block = model::WeightBlock::none;
  std::int32_t layer = -1;
  // Heads (attention), FFN columns (ffn), rows of the vocabulary (head: one tile).
  model::Range columns{};
  double bytes = 0.0;  // as on the disk
  bool operator==(const StreamedBlock&) const = default;
};

// Returns what a device with `share` streams in one step, in order; empty if `window` does not
// stream. The last entries are the tiles of the LM head. All but the last tile have the most rows
// that take no more than the largest block of a layer (of the model's, if the device has none).
[[nodiscard]] std::vector<StreamedBlock> streamed_blocks(const model::Transformer& transformer,
                                                         const model::Share& share, Window window);

// Returns `window`, or no streaming if it has room for every streamed block.
[[nodiscard]] Window normalized(const model::Transformer& transformer, const model::Share& share,
                                Window window);

// Slots of one class of blocks. The k-th load of the class uses slot k % count: the load of block b
// waits for the release of block b - window, so the slot's previous block is gone by then. The
// classes are attention blocks and the rest; or all blocks form one class of `window` slots as
// large as the largest block, if that takes less (w = 1: exactly the largest block, Proposition 5).
struct ClassSlots {
  std::int64_t count = 0;  // the most blocks of the class among any `window` in a row, cyclically
  double bytes = 0.0;      // of one slot: its largest block in whole pages
  [[nodiscard]] double total() const { return static_cast<double>(count) * bytes; }
};

struct WindowMemory {
  double resident = 0.0;  // bytes of the weights that stay
  ClassSlots attention;   // count 0: one class, whose slots are `ffn`
  ClassSlots ffn;         // also tiles of the head, which begin anywhere in a page
  // Proposition 5 takes the largest sum of `window` blocks in a row. This total is larger for odd
  // windows from 3 on if the windows with the most attention and the most FFN blocks differ: by up
  // to the smaller block on a device with layers only. Blocks at fixed addresses that do not wrap
  // need it (decision 0009).
  [[nodiscard]] double total() const { return resident + attention.total() + ffn.total(); }
};
[[nodiscard]] WindowMemory window_memory(const model::Transformer& transformer,
                                         const model::Share& share, Window window);

// Returns the peak bytes of weights on a device with `share`.
[[nodiscard]] double weight_bytes(const model::Transformer& transformer, const model::Share& share,
                                  Window window);
// Returns the padding beyond that: each resident block lies in whole pages. Up to two pages a
// layer; partitions ignore it.
[[nodiscard]] double page_padding(const model::Transformer& transformer, const model::Share& share,
                                  Window window);

}  // namespace tandem::planner
