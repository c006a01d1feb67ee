#pragma once

// Slices weight blocks from the tensors of files.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exec/weights/source/layout.hpp"
#include "exec/weights/source/weight_source.hpp"

namespace tandem::exec {

// Reads the slices of `block` into `out`, the block's bytes, in their formats: stored bytes if the
// file has that format, else converted, exactly to a wider format, else rounded (block_codec.hpp).
// Leaves padding unchanged. Throws Error as WeightSource::read does, and for numbers outside a
// format's range.
void slice_block(const WeightSource& weights, const LayoutBlock& block, std::span<std::byte> out);

// Reads the bytes of one slice of `layer`.
void slice_tensor(const WeightSource& weights, const TensorSlice& slice, std::int32_t layer,
                  std::span<std::byte> out);

// Reads rows of the whole matrix or vector that `slice`, of `layer`, belongs to, in `slice.format`;
// `out` as above. `values` is scratch memory.
void read_slice_rows(const WeightSource& weights, const TensorSlice& slice, std::int32_t layer,
                     model::Range rows, std::vector<float>& values, std::span<std::byte> out);

// Calls `sink` with all bytes of `block` as in memory, padding included, in pieces of about 1 MiB,
// or of 64 MiB for transposed tensors: a block may be larger than memory.
void stream_block(const WeightSource& weights, const LayoutBlock& block,
                  const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace tandem::exec
