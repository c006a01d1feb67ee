#pragma once

// The formats of 256 weights a block, one block at a time: what exec/weights/formats/block_codec
// calls.

#include <cstddef>

#include "model/transformer/weight_format.hpp"

namespace tandem::exec {

inline constexpr std::size_t kLongBlock = 256;

// The numbers of a block, as ggml's dequantize_row_q4_K and so on.
void decode_long_block(model::WeightFormat format, const std::byte* block, float* out);
// A block of 256 numbers. Scales and least numbers are searched for, so that what is lost, weighed
// by the numbers' size, is small: not ggml's bytes, but as near to the numbers.
void encode_long_block(model::WeightFormat format, const float* x, std::byte* block);

// The numbers that the halves of iq4_nl and iq4_xs mean, in order.
inline constexpr float kUneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
// The index of the nearest of them.
[[nodiscard]] int nearest_uneven(float x);

// Six bits each: scale and least number of part `part` of eight of q4_k and q5_k.
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

// The six bits of the scale of part `part` of 16 of q3_k: four, and two from the last bytes.
[[nodiscard]] inline int scale_of_q3_k(const std::byte* scales, std::size_t part) {
  const auto at = [scales](std::size_t i) { return std::to_integer<int>(scales[i]); };
  const int low = at(part % 8) >> (part < 8 ? 0 : 4) & 15;
  const int high = at(8 + part % 4) >> (2 * (part / 4)) & 3;
  return (low | high << 4) - 32;
}

}  // namespace tandem::exec
