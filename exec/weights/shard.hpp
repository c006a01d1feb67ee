#pragma once

// The weights of one device.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/memory.hpp"
#include "model/task_graph.hpp"
#include "model/transformer.hpp"

namespace tandem::exec {

struct LayoutBlock;  // exec/weights/layout.hpp
struct LoadedBlock;  // exec/streaming/block_loader.hpp
struct ShardLayout;  // exec/weights/layout.hpp

// Rows of an embedding that is not in memory.
class EmbeddingRows {
 public:
  virtual ~EmbeddingRows() = default;
  // The row of `token`, [hidden]. Throws Error if it cannot be read.
  virtual void read_row(std::int32_t token, std::span<float> row) = 0;
};

// A device's share of the weights in memory, f32, and the file format that carries it: the master
// makes it, the wire sends it, the worker caches it under its content hash (shard_file.hpp).
// The file: "tandem-shard", version, JSON header (geometry, share, blocks), zeros up to a multiple
// of 4096; then the storage as it is in memory: blocks in layer order, each 4096-aligned,
// little-endian f32. Geometry and share determine the header and the size. Move-only.
class Shard {
 public:
  // Slices `share` out of the Hugging Face folder `weights` (F32, F16 or BF16 safetensors, one file
  // or sharded with an index). Throws Error: file, tensor, value, expected, remedy.
  static Shard slice(const std::filesystem::path& weights, const model::Transformer& transformer,
                     const model::Share& share);
  // Of weights that `fill` makes, block by block: exec/weights/layout.hpp says where each lies.
  static Shard filled(const model::Transformer& transformer, const model::Share& share,
                      const std::function<void(const LayoutBlock&, std::span<float>)>& fill);
  // Reads a shard file's bytes. Throws Error naming `source` if they are not a shard of this
  // geometry and share (truncated, altered lengths, other version).
  static Shard parse(std::span<const std::byte> bytes, const model::Transformer& transformer,
                     const model::Share& share, const std::string& source);
  // The same straight from a file into the storage: no second copy in memory. `progress`, if any,
  // is told now and then how many of the storage's bytes are there; it may throw to end this.
  static Shard read(
      const std::filesystem::path& file, const model::Transformer& transformer,
      const model::Share& share,
      const std::function<void(std::uint64_t done, std::uint64_t total)>& progress = {});

  // The shard file's bytes; in pieces to `sink`, without a second copy; and their SHA-256.
  // Throw logic_error for a shard of which only a part is resident.
  [[nodiscard]] std::vector<std::byte> serialize() const;
  void write(const std::function<void(std::span<const std::byte>)>& sink) const;
  [[nodiscard]] std::string content_id() const;
  // Size of the shard file of `share`, without making it. Throws Error if the share is not within
  // the model or the model cannot be executed.
  [[nodiscard]] static std::uint64_t file_bytes(const model::Transformer& transformer,
                                                const model::Share& share);

  struct Tensors;  // exec/weights/tensors.hpp: what the kernels read
  // The part of a shard that stays in memory while the rest is streamed: of block i of `layout`
  // the first `resident`[i] bytes, which `read` copies from the storage in the file (offset there,
  // 4096-aligned; the destination is of whole pages).
  struct Part {
    const ShardLayout& layout;
    std::span<const std::uint64_t> resident;
    std::function<void(std::uint64_t offset, std::span<std::byte> pages)> read;
  };
  static Shard resident(const model::Transformer& transformer, const model::Share& share,
                        const Part& part);
  // Kernels find a streamed block there until it is bound again, or unbound.
  void bind(const LoadedBlock& block);
  // Attention or FFN of `layer`, or the head: nothing may use it until it is bound.
  void unbind(model::WeightBlock block, std::int32_t layer);

  Shard(Shard&&) noexcept;
  Shard& operator=(Shard&&) noexcept;
  ~Shard();

  [[nodiscard]] const model::Transformer& transformer() const;
  [[nodiscard]] const model::Share& share() const;
  // Of what is resident: model::weight_bytes and the padding between blocks.
  [[nodiscard]] double bytes() const;

  [[nodiscard]] const Tensors& tensors() const { return *tensors_; }

 private:
  Shard(const model::Transformer& transformer, const model::Share& share);
  Shard(const model::Transformer& transformer, const model::Share& share, const ShardLayout& layout,
        std::span<const std::uint64_t> resident);
  std::unique_ptr<Tensors> tensors_;
  bool has_file_layout_ = false;
};

}  // namespace tandem::exec
