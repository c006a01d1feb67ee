#pragma once

// Searches for the scales with which a block of 256 numbers is encoded: what the encoders of
// exec/weights/formats/k_codec.hpp spend their time on. A part is 16 or 32 neighbours of the block
// that share a scale. All parts are searched side by side, a vector's lane each. Sums over a part
// are in the order of its numbers and nothing is fused: every instruction set gives the same bits.

#include <array>
#include <cstddef>

namespace tandem::exec {

// Parts of which x is about  scale q - least,  0 <= q <= most,  q whole.
template <std::size_t kParts>
struct AffineScales {
  std::array<float, kParts> scale{};
  std::array<float, kParts> least{};
};

// Which scales are tried: those that give  most + first + step * t  levels to the range of a part,
// t = 0 ... steps, and the one that gives it `most`.
struct ScaleTrials {
  int most = 0;
  float first = 0.0F;
  float step = 0.0F;
  int steps = 0;
};

// Returns for each of 8 parts the scale and least number (>= 0) with the smallest sum of
// w |scale q - least - x|^2. Each trial fits both to its levels by weighed least squares.
// w = root mean square of the part + |x|, as in ggml.
[[nodiscard]] AffineScales<8> search_squares(const float* x, const ScaleTrials& trials);

// The same for each of 16 parts, with the smallest sum of |x| |scale q - least - x|.
[[nodiscard]] AffineScales<16> search_magnitudes(const float* x, const ScaleTrials& trials);

// Returns for each of 16 parts the scale of either sign with the smallest sum of
// x^2 (scale q - x)^2,  -most <= q < most,  of 19 around the one that makes the number of the
// largest magnitude the lowest level; 0 for a part whose numbers are all below 1e-15.
[[nodiscard]] std::array<float, 16> search_scales(const float* x, int most);

}  // namespace tandem::exec
