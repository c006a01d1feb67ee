#pragma once

// The memory of one device's key/value cache: blocks of positions (model/graph/block_table.hpp),
// each with the keys and values of the device's layers and key/value heads.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/kernels/attention.hpp"
#include "exec/weights/files/aligned_buffer.hpp"
#include "model/graph/block_table.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/task_graph.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

class BlockCache {
 public:
  // Allocates blocks for `positions`, rounded up: model::cache_blocks of model::cache_block_bytes.
  BlockCache(const model::Transformer& transformer, const model::Share& share,
             std::int64_t positions);

  // Begins a step: executes its cache operations and allocates blocks for its rows' positions,
  // copying shared contents. Returns the bytes copied (model/graph/cache_copies.hpp). Throws as
  // model::BlockTable does.
  double begin(const model::Batch& batch);
  // The same for `rows` of the batch only; other devices cache the others.
  double begin(const model::Batch& batch, model::Range rows);
  // Begins a step of which this device caches no rows: frees the sequences that end.
  void pass(const model::Batch& batch);
  // Allocates blocks for `positions` of one sequence; see model::BlockTable::append. Returns the
  // bytes copied.
  double append(std::int32_t sequence, model::Range positions);
  // Frees all sequences.
  void clear();

  [[nodiscard]] const model::BlockTable& table() const { return table_; }
  [[nodiscard]] double bytes() const { return static_cast<double>(memory_.size()); }

  // Returns the keys and values of a layer and key/value head (of the model, in the share) of the
  // sequence with the given table().blocks().
  [[nodiscard]] CachedHead head(std::span<const std::int32_t> blocks, std::int32_t layer,
                                std::int32_t kv_head) const;
  // Returns the keys and values of all of a layer's heads in all blocks, of any sequence.
  [[nodiscard]] std::span<std::byte> layer(std::int32_t layer);

 private:
  // Blocks of one head are adjacent, so a sequence with consecutive blocks is read as if it were
  // contiguous: [layers][kv heads][blocks][keys and values of a block].
  [[nodiscard]] std::int64_t offset(std::int32_t layer, std::int32_t kv_head) const;  // bytes
  [[nodiscard]] std::int64_t head_index(std::int32_t layer, std::int32_t kv_head) const;
  void reset_scales();
  std::int64_t copy(const model::BlockTable::Copy& copy);  // returns bytes

  model::LayerRuns layers_;
  model::Range kv_heads_;
  std::int64_t head_dim_;
  model::CacheFormat format_;
  // [layers][kv heads]: of F16, in whatever blocks. All 1 while no sequence has a block.
  mutable std::vector<HeadScales> scales_;
  model::BlockTable table_;
  AlignedBuffer memory_;
};

}  // namespace tandem::exec
