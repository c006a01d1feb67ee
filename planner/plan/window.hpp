#pragma once

// The memory scheduler's window: which weight blocks a device streams from its disk, and how much
// memory they and what stays take. TPI-LLM (arXiv 2410.00531), section 3.3, and below its floor:
// embedding rows are fetched one by one, and the LM head goes through the window in tiles.

#include <cstdint>
#include <vector>

#include "model/graph/memory.hpp"
#include "model/graph/task_graph.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::planner {

// Whole pages, as direct reads need them.
inline constexpr double kWindowPage = 4096.0;

struct Window {
  // Streamed blocks in memory at once, the one that computes included; 0: all weights are resident.
  std::int32_t blocks = 0;
  // The FFN blocks of layers 0, T, 2 T, ... are resident, beside the window; 0: none is.
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

// What a device with `share` streams in one step, in order; empty if `window` does not stream. The
// last are the tiles of the LM head: all but the last of the most rows that take no more than the
// largest block of a layer (of the model's, if the device has none).
[[nodiscard]] std::vector<StreamedBlock> streamed_blocks(const model::Transformer& transformer,
                                                         const model::Share& share, Window window);

// `window`, or no streaming if it has room for every streamed block.
[[nodiscard]] Window normalized(const model::Transformer& transformer, const model::Share& share,
                                Window window);

// Slots of one class of blocks. The k-th load of the class takes slot k % count: the load of block
// b waits for the release of block b - window, so the slot's last block is gone by then.
// Classes are attention blocks and the rest; or all blocks are one class with `window` slots of the
// largest block, where that takes less (w = 1: exactly the largest block, as Proposition 5 has it).
struct ClassSlots {
  std::int64_t count = 0;  // the most blocks of the class among any `window` in a row, cyclically
  double bytes = 0.0;      // of one slot: its largest block in whole pages
  [[nodiscard]] double total() const { return static_cast<double>(count) * bytes; }
};

struct WindowMemory {
  double resident = 0.0;  // bytes of the weights that stay
  ClassSlots attention;   // count 0: the attention blocks take the other slots, as all blocks do
  ClassSlots ffn;         // and tiles of the head, which begin anywhere in a page
  // Proposition 5 is the largest sum of `window` blocks in a row. For odd windows from 3 on, where
  // the windows with most attention and with most FFN blocks are not the same, this is more, by up
  // to the smaller block on a device that has layers only: blocks that stay where they are and do
  // not wrap need it (decision 0009).
  [[nodiscard]] double total() const { return resident + attention.total() + ffn.total(); }
};
[[nodiscard]] WindowMemory window_memory(const model::Transformer& transformer,
                                         const model::Share& share, Window window);

// Bytes of weights that a device with `share` holds at its peak.
[[nodiscard]] double weight_bytes(const model::Transformer& transformer, const model::Share& share,
                                  Window window);
// What it takes beyond that, as each block that stays lies in whole pages: up to two pages a layer,
// which shares are not chosen by.
[[nodiscard]] double page_padding(const model::Transformer& transformer, const model::Share& share,
                                  Window window);

}  // namespace tandem::planner
