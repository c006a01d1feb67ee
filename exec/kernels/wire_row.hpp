#pragma once

// Rows of activations as they travel (model/transformer/wire_format.hpp).

#include <cstddef>
#include <span>

#include "model/transformer/wire_format.hpp"

namespace tandem::exec {

// Writes `row` to `sent` and gives it the values that decode_row makes of that, so that sender and
// receiver go on with equal bits on every machine. Doing so again changes neither, as long as
// blocks are the same.
//   f16, bf16: to nearest, ties to even
//   q8_0, of a block x: d = max |x| / 127; q = x (1 / d), to nearest, ties to even; x = q d' where
//   d' is d in f16; d' = 0 gives zeros
// Returns whether all values are finite, and stay so in the format (f16 ends at 65504, q8_0 at 127
// times that); else what is in `row` and `sent` is of no use. f32 takes any values. Throws
// logic_error unless `sent` is of wire_row_bytes.
[[nodiscard]] bool encode_row(model::WireFormat format, std::span<float> row,
                              std::span<std::byte> sent);
// Throws logic_error likewise.
void decode_row(model::WireFormat format, std::span<const std::byte> sent, std::span<float> row);

}  // namespace tandem::exec
