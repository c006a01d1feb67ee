#pragma once

// The weights of one device.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/graph/memory.hpp"
#include "model/graph/task_graph.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

class AlignedBuffer;  // exec/weights/files/aligned_buffer.hpp
struct LayoutBlock;   // exec/weights/source/layout.hpp
struct LoadedBlock;   // exec/weights/block_loader.hpp
struct ShardLayout;   // exec/weights/source/layout.hpp
struct PartsToRead;   // exec/weights/mapped_weights.hpp
class ThreadPool;     // exec/kernels/thread_pool.hpp
class WeightSource;   // exec/weights/source/weight_source.hpp

// Rows of an embedding that is not in memory.
class EmbeddingRows {
 public:
  virtual ~EmbeddingRows() = default;
  // Reads the row of `token` as f32, [hidden]. Throws Error if it cannot be read.
  virtual void read_row(std::int32_t token, std::span<float> row) = 0;
};

// A device's share of the weights in memory, in their formats: weight blocks in the layout of
// exec/weights/source/layout.hpp, each 4096-aligned. Blocks may be shared with other owners
// (resident_blocks.hpp). Move-only.
class Shard {
 public:
  // Slices `share` from `weights`: a Hugging Face folder (F32, F16 or BF16 safetensors, one file or
  // sharded with an index) or a GGUF file. Throws Error: file, tensor, value, expected, remedy.
  static Shard slice(const std::filesystem::path& weights, const model::Transformer& transformer,
                     const model::Share& share);
  // The same from open files. Throws Error if they change meanwhile.
  static Shard slice(const WeightSource& weights, const model::Transformer& transformer,
                     const model::Share& share);
  // Makes a shard of weights that `fill` writes, block by block, in the layout of
  // exec/weights/source/layout.hpp.
  static Shard filled(const model::Transformer& transformer, const model::Share& share,
                      const std::function<void(const LayoutBlock&, std::span<std::byte>)>& fill);
  // Makes a shard that uses matrices in place in the files if products can (MappedWeights::find),
  // and copies the others, norms and biases. Copies everything, as slice does, if no matrix can be
  // used in place. Throws Error as slice and MappedWeights do.
  static Shard mapped(const WeightSource& weights, const model::Transformer& transformer,
                      const model::Share& share, const PartsToRead& how);
  struct Tensors;  // exec/weights/tensors.hpp: what the kernels read
  // A block's first `bytes` bytes, in memory of whole pages; none for a streamed block.
  struct Block {
    std::shared_ptr<const AlignedBuffer> memory;
    std::uint64_t bytes = 0;
  };
  // Makes a shard of blocks in memory: one for each of layout_of(transformer, share), in order.
  static Shard of_blocks(const model::Transformer& transformer, const model::Share& share,
                         std::vector<Block> blocks);
  // Sets the memory of a streamed block, until it is bound again or unbound.
  void bind(const LoadedBlock& block);
  // Returns whether the run should measure the worth of copy_mapped() (MoveChoice).
  [[nodiscard]] bool may_copy() const;
  // Copies the mapped matrices of a layer (by share.layers.place; their number: the LM head) to
  // memory of their own, where later products read the same bytes; an alias keeps the mapped ones.
  // Stops after `at_most` with a part of them, and continues when called again with the same place;
  // no other place may come in between. One matrix is in memory twice meanwhile. Returns the part
  // of the bytes copied, 1: all; nothing, and no change, if there was no memory. Throws Error as
  // check().
  std::optional<double> copy_mapped(
      std::size_t place, ThreadPool& pool,
      std::chrono::nanoseconds at_most = std::chrono::nanoseconds::max());
  // Reverts an unfinished copy to the mapped matrices.
  void leave_mapped();

  // Unbinds attention or FFN of `layer`, or the head: no task may use it until it is bound.
  void unbind(model::WeightBlock block, std::int32_t layer);

  // Returns a shard of the same weights in the same memory.
  [[nodiscard]] Shard alias() const;

  Shard(Shard&&) noexcept;
  Shard& operator=(Shard&&) noexcept;
  ~Shard();

  [[nodiscard]] const model::Transformer& transformer() const;
  [[nodiscard]] const model::Share& share() const;
  // Returns the bytes in memory: model::weight_bytes and the padding between blocks; for mapped
  // files their matrices.
  [[nodiscard]] double bytes() const;
  [[nodiscard]] double mapped_bytes() const;
  // Throws Error as MappedWeights::check: results from mapped files are invalid.
  void check() const;

  [[nodiscard]] const Tensors& tensors() const { return *tensors_; }

 private:
  explicit Shard(std::unique_ptr<Tensors> tensors);
  Shard(const model::Transformer& transformer, const model::Share& share);
  Shard(const model::Transformer& transformer, const model::Share& share, const ShardLayout& layout,
        std::vector<Block> blocks);
  struct Moving;
  std::unique_ptr<Tensors> tensors_;
  std::unique_ptr<Moving> moving_;  // state of an unfinished copy_mapped; null: none
};

}  // namespace tandem::exec
