#pragma once

// Conversion between weight formats and f32, bit for bit as ggml's reference functions
// (ggml-quants.c: dequantize_row_q8_0 and so on; quantize_row_q8_0_ref, q4_0, q4_1, q5_0, q5_1).
// Encoders of the formats with 256 weights a block and of iq4_nl are tandem's own. Plain code, for
// slicing, fetching and lookups; products read the formats directly
// (exec/kernels/weight_product.hpp).

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/transformer/weight_format.hpp"

namespace tandem::exec {

// out[i] = scale * q[i] in one rounded product, or as in ggml for formats with minimums and scales
// of parts; f16 and bf16 widen exactly. NaN and infinite scales are decoded as such. `stored` needs
// no alignment. Throws logic_error unless its size is model::row_bytes(format, out.size()), of
// whole blocks.
void decode(model::WeightFormat format, std::span<const std::byte> stored, std::span<float> out);

// f16, bf16: to nearest, ties to even. q8_0: d = max |x| / 127, q = round(x / d), halves away from
// zero. q4_0: d = m / -8 with m the number of the largest magnitude (of equal ones the first), so
// that it is exact; q = floor(x / d + 8.5), at most 15. q5_0 as q4_0 with -16, 16.5 and 31; q4_1
// and q5_1: d = (max - min) / 15 or 31, q = floor((x - min) / d + 0.5). The scale d is rounded to
// f16 after the quotients; d = 0 gives zeros. Inputs are finite; numbers beyond the format's range
// give infinite numbers or scales. Sizes as above.
void encode(model::WeightFormat format, std::span<const float> values, std::span<std::byte> stored);

}  // namespace tandem::exec
