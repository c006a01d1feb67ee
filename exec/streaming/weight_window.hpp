#pragma once

// The weights of a device that holds only a window of them: the resident ones, and slots through
// which the other blocks are streamed from their files.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/streaming/direct_file.hpp"
#include "exec/weights/block_loader.hpp"
#include "exec/weights/files/aligned_buffer.hpp"
#include "exec/weights/shard.hpp"
#include "exec/weights/source/layout.hpp"
#include "exec/weights/store/block_store.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::exec {

// A block in the planner's list. Of the head: a tile of rows of the vocabulary.
struct WindowBlock {
  model::WeightBlock block = model::WeightBlock::none;
  std::int32_t layer = -1;
  model::Range rows{};  // of the vocabulary; empty for other blocks
};

struct SlotCounts {            // number of blocks of a class in memory at once
  std::int64_t attention = 0;  // 0: they use the other slots
  std::int64_t ffn = 0;        // FFN blocks and tiles of the head
  // Lower limits of slot sizes, from the plan: tiles may begin anywhere in a page.
  std::uint64_t attention_bytes = 0;
  std::uint64_t ffn_bytes = 0;
};

struct WindowFileOptions {
  DirectFileOptions file{};
  DirectReaderOptions reader{};
  // Called before the slots are allocated, with the blocks of the layout that stay in memory as a
  // whole, so that the memory of others can be released.
  std::function<void(const std::vector<bool>& whole)> before_slots{};
};

class WeightWindow final : public BlockLoader, public EmbeddingRows {
 public:
  // Opens the files of `weights`, which are those of the share's layout, in order and checked, and
  // allocates the slots. `blocks` is in the order of a step. Throws Error: file, value, expected,
  // remedy.
  WeightWindow(std::span<const BlockFile> weights, const model::Transformer& transformer,
               const model::Share& share, std::span<const WindowBlock> blocks,
               const SlotCounts& slots, const WindowFileOptions& options = {});

  // Reads a block that stays in memory as a whole.
  using LoadBlock = std::function<std::shared_ptr<const AlignedBuffer>(const BlockFile& file)>;
  // Returns the resident weights: everything except `blocks` and, on a device that streams, the
  // rows of the vocabulary (the final norm, positions and token types stay).
  [[nodiscard]] Shard read_resident(const LoadBlock& load) const;

  [[nodiscard]] std::size_t find(const model::Task& task) const override;
  // See BlockLoader; also throws Error if the file was truncated or changed since it was opened.
  [[nodiscard]] LoadedBlock load(std::size_t block, const std::atomic<bool>& stop) override;
  // Reads one row of the embedding. For the computing thread.
  void read_row(std::int32_t token, std::span<float> row) override;

  // Returns the bytes of the slots.
  [[nodiscard]] double allocated_bytes() const { return static_cast<double>(memory_.size()); }
  // Returns how the files are read, for results.
  [[nodiscard]] std::string method() const;

 private:
  struct Extent {  // of whole pages around a block
    const LayoutBlock* layout = nullptr;
    const DirectFile* file = nullptr;
    model::Range rows;
    std::uint64_t offset = 0;  // in the file
    std::uint64_t bytes = 0;
    std::uint64_t skip = 0;  // from there to the block's first byte
    std::size_t of_class = 0;
  };
  struct SlotClass {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;  // of one slot
    std::int64_t slots = 0;
    std::int64_t loads = 0;  // so far
  };

  [[nodiscard]] Extent extent_of(const WindowBlock& wanted) const;
  [[nodiscard]] const LayoutBlock* matrix_rows(model::WeightBlock block,
                                               std::uint64_t& offset) const;
  [[nodiscard]] const DirectFile& file_of(const LayoutBlock& block) const;
  [[nodiscard]] std::uint64_t resident_bytes(std::size_t i) const;
  [[nodiscard]] bool stays_whole(std::size_t i) const;
  void allocate(const SlotCounts& slots);

  model::Transformer transformer_;
  model::Share share_;
  ShardLayout layout_;
  std::vector<BlockFile> weights_;  // by block of the layout, as are the files
  std::vector<DirectFile> files_;
  DirectReader reader_;
  std::vector<Extent> extents_;
  std::array<SlotClass, 2> classes_;
  AlignedBuffer memory_;
  AlignedBuffer row_memory_;
};

}  // namespace tandem::exec
