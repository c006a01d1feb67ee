#pragma once

// Weight blocks of small models, for tests.

#include <filesystem>
#include <string>
#include <vector>

#include "exec/weights/shard.hpp"
#include "exec/weights/source/layout.hpp"
#include "exec/weights/store/block_maker.hpp"
#include "exec/weights/tensors.hpp"

namespace tandem::testing {

// All bytes of a shard, block after block.
inline std::string contents_of(const exec::Shard& shard) {
  std::string bytes;
  for (const auto& memory : shard.tensors().storage)
    bytes.append(reinterpret_cast<const char*>(memory->data()), memory->size());
  return bytes;
}

inline std::vector<exec::MadeBlock> blocks_of(const std::filesystem::path& weights,
                                              const model::Transformer& t,
                                              const model::Share& share, exec::BlockStore& store,
                                              const exec::BlockMakerOptions& options = {}) {
  return make_blocks(exec::BlockMaker(weights, t, store), exec::layout_of(t, share), options);
}

inline std::vector<exec::BlockFile> files_of(const std::vector<exec::MadeBlock>& blocks) {
  std::vector<exec::BlockFile> files;
  for (const exec::MadeBlock& block : blocks) files.push_back(block.file);
  return files;
}

}  // namespace tandem::testing
