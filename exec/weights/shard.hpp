#pragma once

// The weights of one device.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/memory.hpp"
#include "model/transformer.hpp"

namespace tandem::exec {

// A device's share of the weights in memory, f32, and the file format that carries it: the master
// makes it, the wire sends it, the worker caches it under its content hash.
// Tensors: one file "tandem-shard", JSON header (geometry, share), then blocks in layer order,
// each 4096-aligned. Move-only.
class Shard {
 public:
  // Slices `share` out of the Hugging Face folder `weights` (F32, F16 or BF16 safetensors, one file
  // or sharded with an index). Throws Error: file, tensor, value, expected, remedy.
  static Shard slice(const std::filesystem::path& weights, const model::Transformer& transformer,
                     const model::Share& share);
  // Reads a shard file's bytes. Throws Error naming `source` if they are not a shard of this
  // geometry and share (truncated, altered lengths, other version).
  static Shard parse(std::span<const std::byte> bytes, const model::Transformer& transformer,
                     const model::Share& share, const std::string& source);
  [[nodiscard]] std::vector<std::byte> serialize() const;

  Shard(Shard&&) noexcept;
  Shard& operator=(Shard&&) noexcept;
  ~Shard();

  [[nodiscard]] const model::Transformer& transformer() const;
  [[nodiscard]] const model::Share& share() const;
  [[nodiscard]] double bytes() const;  // of the tensors in memory

  struct Tensors;  // exec/weights/tensors.hpp: what the kernels read
  [[nodiscard]] const Tensors& tensors() const { return *tensors_; }

 private:
  Shard();
  std::unique_ptr<Tensors> tensors_;
};

}  // namespace tandem::exec
