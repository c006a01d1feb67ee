#pragma once

// Conversion of rows of activations for messages (model/transformer/wire_format.hpp).

#include <cstddef>
#include <span>

#include "model/transformer/wire_format.hpp"

namespace tandem::exec {

// Writes `row` to `sent` and replaces it by the values that decode_row restores, so that sender and
// receiver continue with equal bits on every machine. Idempotent as long as blocks are the same.
//   f16, bf16: to nearest, ties to even
//   q8_0, of a block x: d = max |x| / 127; q = x (1 / d), to nearest, ties to even; x = q d' where
//   d' is d in f16; d' = 0 gives zeros
// Returns whether all values are finite, also in the format (f16 ends at 65504, q8_0 at 127 times
// that); otherwise `row` and `sent` are invalid. f32 accepts any values. Throws logic_error unless
// `sent` has wire_row_bytes.
[[nodiscard]] bool encode_row(model::WireFormat format, std::span<float> row,
                              std::span<std::byte> sent);
// Throws logic_error as above.
void decode_row(model::WireFormat format, std::span<const std::byte> sent, std::span<float> row);

}  // namespace tandem::exec
