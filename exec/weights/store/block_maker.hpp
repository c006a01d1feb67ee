#pragma once

// The master's part of the store: slices blocks from a folder or file of weights, once.

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/weights/source/layout.hpp"
#include "exec/weights/source/weight_source.hpp"
#include "exec/weights/store/block_store.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

struct MadeBlock {
  BlockLabel label;
  BlockFile file;
};

struct BlockMakerOptions {
  // Reads a stored block as a whole and checks its digests; else only its size.
  bool verify = false;
  // Called at intervals with the bytes of a block that have been sliced or read.
  WeightProgress slicing{};
  WeightProgress verifying{};
  // Called when something in the cache was damaged and has been made again, with a description.
  std::function<void(const std::string& warning)> on_damage{};
};

// Thread-safe.
class BlockMaker {
 public:
  // Throws Error unless `weights` belongs to `transformer`. `store` outlives it.
  BlockMaker(const std::filesystem::path& weights, const model::Transformer& transformer,
             BlockStore& store);

  // Makes `block` of a layout of the model: sliced portion by portion (a few MiB of memory,
  // whatever the model), or found in the store if the files (WeightSource::fingerprint) and the
  // block's slices are those of an earlier call. Damage in the store, of a block or its records, is
  // repaired rather than an error. Throws Error: file, tensor, value, expected, remedy.
  [[nodiscard]] MadeBlock make(const LayoutBlock& block,
                               const BlockMakerOptions& options = {}) const;

  // Returns the weights that blocks are made of.
  [[nodiscard]] const WeightSource& weights() const { return *source_; }

 private:
  [[nodiscard]] std::string key_of(const LayoutBlock& block) const;
  [[nodiscard]] std::optional<MadeBlock> find(const std::filesystem::path& entry,
                                              const BlockPieces& pieces,
                                              const BlockMakerOptions& options) const;
  model::Transformer transformer_;
  std::unique_ptr<const WeightSource> source_;
  BlockStore* store_;
};

// Makes the blocks of `share`, in the order of its layout. The progress is of all blocks together.
[[nodiscard]] std::vector<MadeBlock> make_blocks(const BlockMaker& maker, const ShardLayout& layout,
                                                 const BlockMakerOptions& options = {});

}  // namespace tandem::exec
