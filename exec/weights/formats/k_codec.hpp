#pragma once

// Codecs of the formats with 256 weights a block, one block at a time, for
// exec/weights/formats/block_codec.

#include <cstddef>

#include "model/transformer/weight_format.hpp"

namespace tandem::exec {

inline constexpr std::size_t kLongBlock = 256;

// Decodes a block, as ggml's dequantize_row_q4_K and so on.
void decode_long_block(model::WeightFormat format, const std::byte* block, float* out);
// Encodes 256 numbers. Searches scales and minimums that minimise the error weighted by the
// numbers' size: not ggml's bytes, but of equal accuracy.
void encode_long_block(model::WeightFormat format, const float* x, std::byte* block);

// The values of the 4-bit indices of iq4_nl and iq4_xs, in order.
inline constexpr float kUneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
// Returns the index of the nearest value.
[[nodiscard]] int nearest_uneven(float x);

// Scale and minimum, six bits each, of one of the eight parts of q4_k and q5_k.
struct PartScale {
  int scale = 0;
  int least = 0;
};
[[nodiscard]] inline PartScale part_scale(const std::byte* scales, std::size_t part) {
  const auto at = [scales](std::size_t i) { return std::to_integer<int>(scales[i]); };
  if (part < 4) return {at(part) & 63, at(part + 4) & 63};
  return {(at(part + 4) & 15) | (at(part - 4) >> 6 << 4),
          (at(part + 4) >> 4) | (at(part) >> 6 << 4)};
}

// Returns the six-bit scale of one of the 16 parts of q3_k: four bits, and two from the last bytes.
[[nodiscard]] inline int scale_of_q3_k(const std::byte* scales, std::size_t part) {
  const auto at = [scales](std::size_t i) { return std::to_integer<int>(scales[i]); };
  const int low = at(part % 8) >> (part < 8 ? 0 : 4) & 15;
  const int high = at(8 + part % 4) >> (2 * (part / 4)) & 3;
  return (low | high << 4) - 32;
}

}  // namespace tandem::exec
