#pragma once

// Conversion between the stored element types and f32.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// Returns the value of a half's bits.
inline float f16_to_f32(std::uint16_t half) {
  constexpr std::uint32_t kInfinity = 0x7f800000U;
  const std::uint32_t magnitude = half & 0x7fffU;
  // Exponent and fraction shifted to their places leave the exponent's bias 112 too small; one
  // multiplication corrects that, also for subnormals.
  const float scaled = std::bit_cast<float>(magnitude << 13U) * 0x1p112F;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(scaled);
  bits |= magnitude >= 0x7c00U ? kInfinity : 0U;
  bits |= (static_cast<std::uint32_t>(half) & 0x8000U) << 16U;
  return std::bit_cast<float>(bits);
}

// Exact, as every F16 and BF16 value is an f32 value, including subnormals, infinities and NaN.
// Throws logic_error unless stored.size() == out.size() * size_of(dtype). `stored` needs no
// alignment.
void to_f32(model::DType dtype, std::span<const std::byte> stored, std::span<float> out);

// Rounds to nearest, ties to even; infinity beyond the largest finite value. Sizes as above.
void from_f32(model::DType dtype, std::span<const float> values, std::span<std::byte> stored);

}  // namespace tandem::exec
