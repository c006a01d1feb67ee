#pragma once

// The shard file around the storage: its header, and slicing block by block.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "exec/weights/layout.hpp"
#include "exec/weights/safetensors.hpp"

namespace tandem::exec {

// The header that a shard file of this geometry and share must have, padded to kBlockAlignment.
// The transformer's name is not part of it: the same weights under another folder's name are the
// same shard.
[[nodiscard]] std::vector<std::byte> shard_header(const model::Transformer& transformer,
                                                  const model::Share& share,
                                                  const ShardLayout& layout);

// Throws Error naming `source` unless `actual` begins with `expected`, saying what differs: not a
// shard, another version, another model or share.
void check_shard_header(std::span<const std::byte> actual, std::span<const std::byte> expected,
                        const std::string& source);

// Reads the parts of `block` into `out`, the block's bytes / 4 floats; padding is left as it is.
void slice_block(const SafetensorsFolder& weights, const LayoutBlock& block, std::span<float> out);

// Calls `sink` with all bytes of `block` as they are in a shard file, padding included, in pieces
// of about 1 MiB, 64 MiB of tensors that are stored transposed: a block may be larger than memory.
void stream_block(const SafetensorsFolder& weights, const LayoutBlock& block,
                  const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace tandem::exec
