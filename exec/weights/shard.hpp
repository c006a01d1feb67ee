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
  // The row of `token` as f32, [hidden]. Throws Error if it cannot be read.
  virtual void read_row(std::int32_t token, std::span<float> row) = 0;
};

// A device's share of the weights in memory, in their formats: weight blocks in the layout of
// exec/weights/source/layout.hpp, each 4096-aligned. Blocks may be shared with others that keep
// them (resident_blocks.hpp). Move-only.
class Shard {
 public:
  // Slices `share` out of `weights`: a Hugging Face folder (F32, F16 or BF16 safetensors, one file
  // or sharded with an index) or a GGUF file. Throws Error: file, tensor, value, expected, remedy.
  static Shard slice(const std::filesystem::path& weights, const model::Transformer& transformer,
                     const model::Share& share);
  // The same out of files that are open. Throws Error if its files change meanwhile.
  static Shard slice(const WeightSource& weights, const model::Transformer& transformer,
                     const model::Share& share);
  // A shard of weights that `fill` makes, block by block: exec/weights/source/layout.hpp says where
  // each lies.
  static Shard filled(const model::Transformer& transformer, const model::Share& share,
                      const std::function<void(const LayoutBlock&, std::span<std::byte>)>& fill);
  // A shard whose matrices are those of the files, where these have them as products want them
  // (MappedWeights::find); the others, norms and biases are copied. Everything is copied, as by
  // slice, if no matrix can stay. Throws Error as slice and MappedWeights do.
  static Shard mapped(const WeightSource& weights, const model::Transformer& transformer,
                      const model::Share& share, const PartsToRead& how);
  struct Tensors;  // exec/weights/tensors.hpp: what the kernels read
  // A block's first `bytes` bytes, in memory of whole pages; none of a block that is streamed.
  struct Block {
    std::shared_ptr<const AlignedBuffer> memory;
    std::uint64_t bytes = 0;
  };
  // A shard of blocks that are in memory already: one for each of layout_of(transformer, share), in
  // order.
  static Shard of_blocks(const model::Transformer& transformer, const model::Share& share,
                         std::vector<Block> blocks);
  // Kernels find a streamed block there until it is bound again, or unbound.
  void bind(const LoadedBlock& block);
  // Whether it is for the run to find out what copy_mapped() is worth (MoveChoice).
  [[nodiscard]] bool may_copy() const;
  // Gives the matrices of a layer (by share.layers.place; their number: the LM head) that are
  // mapped memory of their own, where later products read the same bytes; an alias keeps what it
  // has. It ends after `at_most`, with some of them, and goes on where it is called again with the
  // same place; no other one's until then. One matrix is in memory twice meanwhile. Returns which
  // part of the bytes has been copied, 1: all of them; nothing if there was no memory: then nothing
  // changes. Throws Error as check().
  std::optional<double> copy_mapped(
      std::size_t place, ThreadPool& pool,
      std::chrono::nanoseconds at_most = std::chrono::nanoseconds::max());
  // A place that is not copied to its end is mapped again, as it was.
  void leave_mapped();

  // Attention or FFN of `layer`, or the head: nothing may use it until it is bound.
  void unbind(model::WeightBlock block, std::int32_t layer);

  // Another of the same weights, in the same memory.
  [[nodiscard]] Shard alias() const;

  Shard(Shard&&) noexcept;
  Shard& operator=(Shard&&) noexcept;
  ~Shard();

  [[nodiscard]] const model::Transformer& transformer() const;
  [[nodiscard]] const model::Share& share() const;
  // Bytes of what is in memory: model::weight_bytes and the padding between blocks; of mapped files
  // their matrices.
  [[nodiscard]] double bytes() const;
  [[nodiscard]] double mapped_bytes() const;
  // Throws Error as MappedWeights::check, of mapped files: what was computed is worth nothing.
  void check() const;

  [[nodiscard]] const Tensors& tensors() const { return *tensors_; }

 private:
  explicit Shard(std::unique_ptr<Tensors> tensors);
  Shard(const model::Transformer& transformer, const model::Share& share);
  Shard(const model::Transformer& transformer, const model::Share& share, const ShardLayout& layout,
        std::vector<Block> blocks);
  struct Moving;
  std::unique_ptr<Tensors> tensors_;
  std::unique_ptr<Moving> moving_;  // what copy_mapped is at; null: nothing
};

}  // namespace tandem::exec
