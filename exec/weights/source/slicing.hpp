#pragma once

// Weight blocks out of the tensors of files.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exec/weights/source/layout.hpp"
#include "exec/weights/source/weight_source.hpp"

namespace tandem::exec {

// Reads the slices of `block` into `out`, the block's bytes, in their formats: the stored bytes
// where the file has that format, else converted, exactly where a wider one is asked for, else
// rounded (block_codec.hpp). Padding is left as it is. Throws Error as WeightSource::read does, and
// for numbers that a format cannot say.
void slice_block(const WeightSource& weights, const LayoutBlock& block, std::span<std::byte> out);

// One slice of it, of `layer`: its bytes.
void slice_tensor(const WeightSource& weights, const TensorSlice& slice, std::int32_t layer,
                  std::span<std::byte> out);

// Rows of the whole matrix or vector that `slice`, of `layer`, is of, as `slice.format` has them;
// `out` as above. `values` is memory for what is read.
void read_slice_rows(const WeightSource& weights, const TensorSlice& slice, std::int32_t layer,
                     model::Range rows, std::vector<float>& values, std::span<std::byte> out);

// Calls `sink` with all bytes of `block` as they are in memory, padding included, in pieces
// of about 1 MiB, 64 MiB of tensors that are stored transposed: a block may be larger than memory.
void stream_block(const WeightSource& weights, const LayoutBlock& block,
                  const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace tandem::exec
