#pragma once

// The master's part of the store: blocks sliced out of a folder or file of weights, once.

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
  // A block that the store has already is read whole, and its digests are checked; without this,
  // only its size.
  bool verify = false;
  // Are told now and then how many bytes of a block have been sliced, or read.
  WeightProgress slicing{};
  WeightProgress verifying{};
  // Something in the cache was damaged and has been made again: which, and in what way.
  std::function<void(const std::string& warning)> on_damage{};
};

// Thread-safe.
class BlockMaker {
 public:
  // Throws Error unless `weights` is of `transformer`. `store` outlives it.
  BlockMaker(const std::filesystem::path& weights, const model::Transformer& transformer,
             BlockStore& store);

  // `block` of a layout of the model: sliced portion by portion (a few MiB of memory, whatever the
  // model), or found in the store if the files (WeightSource::fingerprint) and the
  // block's slices are those of an earlier call. What is damaged in the store, a block or what
  // remembers it, is no error but made again. Throws Error: file, tensor, value, expected, remedy.
  [[nodiscard]] MadeBlock make(const LayoutBlock& block,
                               const BlockMakerOptions& options = {}) const;

  // The weights that blocks are made of.
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

// What `share` needs, in the order of its layout. The progress is of all blocks together.
[[nodiscard]] std::vector<MadeBlock> make_blocks(const BlockMaker& maker, const ShardLayout& layout,
                                                 const BlockMakerOptions& options = {});

}  // namespace tandem::exec
