#pragma once

// The memory of one device's key/value cache: blocks of positions (model/graph/block_table.hpp),
// each with the keys and values of all layers and key/value heads that the device has.

#include <cstddef>
#include <cstdint>
#include <span>

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

  // A step begins: executes its cache operations and takes blocks for its rows' positions, with
  // the contents that they share. Returns the bytes that were copied for that
  // (model/graph/cache_copies.hpp). Throws as model::BlockTable does.
  double begin(const model::Batch& batch);
  // The same, of `rows` of the batch; the positions of the others are another device's.
  double begin(const model::Batch& batch, model::Range rows);
  // A step begins whose rows this device has nothing of: frees the sequences that end.
  void pass(const model::Batch& batch);
  // Takes blocks for `positions` of one sequence; see model::BlockTable::append. Returns the bytes
  // that were copied.
  double append(std::int32_t sequence, model::Range positions);
  // Frees all sequences.
  void clear() { table_.clear(); }

  [[nodiscard]] const model::BlockTable& table() const { return table_; }
  [[nodiscard]] double bytes() const { return static_cast<double>(memory_.size()); }

  // Keys and values of a layer and key/value head (of the model, in the share), of the sequence
  // whose table().blocks() are given.
  [[nodiscard]] CachedHead head(std::span<const std::int32_t> blocks, std::int32_t layer,
                                std::int32_t kv_head) const;
  // Keys and values of all of a layer's heads in all blocks, whichever sequence has them.
  [[nodiscard]] std::span<std::byte> layer(std::int32_t layer);

 private:
  // Blocks of one head lie side by side, so that a sequence whose blocks are in order is read as if
  // it were contiguous: [layers][kv heads][blocks][keys and values of a block].
  [[nodiscard]] std::int64_t offset(std::int32_t layer, std::int32_t kv_head) const;  // bytes
  std::int64_t copy(const model::BlockTable::Copy& copy);  // returns bytes

  model::LayerRuns layers_;
  model::Range kv_heads_;
  std::int64_t head_dim_;
  model::CacheFormat format_;
  std::int64_t number_bytes_;
  model::BlockTable table_;
  AlignedBuffer memory_;
};

}  // namespace tandem::exec
