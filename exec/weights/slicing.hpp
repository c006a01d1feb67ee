#pragma once

// Weight blocks out of the tensors of a Hugging Face folder.

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "exec/weights/layout.hpp"
#include "exec/weights/safetensors.hpp"

namespace tandem::exec {

// What the folder calls `tensor`; itself if it has it under none of its names.
[[nodiscard]] std::string stored_name(const SafetensorsFolder& weights, const std::string& tensor);

// Reads the slices of `block` into `out`, the block's bytes, in their formats: what is stored in
// another is converted, exactly where a wider one is asked for, else rounded (block_codec.hpp).
// Padding is left as it is. Throws Error as SafetensorsFolder::read does, and for numbers that a
// format cannot say.
void slice_block(const SafetensorsFolder& weights, const LayoutBlock& block,
                 std::span<std::byte> out);

// Calls `sink` with all bytes of `block` as they are in memory, padding included, in pieces
// of about 1 MiB, 64 MiB of tensors that are stored transposed: a block may be larger than memory.
void stream_block(const SafetensorsFolder& weights, const LayoutBlock& block,
                  const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace tandem::exec
