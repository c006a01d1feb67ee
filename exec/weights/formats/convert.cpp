#include "exec/weights/formats/convert.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000U;

float bf16_to_f32(std::uint16_t brain) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(brain) << 16U);
}

std::uint16_t f32_to_f16(float value) {
  const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (all >> 16U) & 0x8000U;
  const std::uint32_t bits = all & 0x7fffffffU;
  std::uint32_t half = 0;
  if (bits > kInfinity) {
    half = 0x7e00U;
  } else if (bits >= 0x477ff000U) {  // 65520: rounds beyond the largest finite half
    half = 0x7c00U;
  } else if (bits < 0x38800000U) {  // 2^-14: subnormal; 0.5's last place is a half's smallest step
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) + 0.5F) - 0x3f000000U;
  } else {
    half = (bits - (112U << 23U) + 0xfffU + ((bits >> 13U) & 1U)) >> 13U;
  }
  return static_cast<std::uint16_t>(sign | half);
}

std::uint16_t f32_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > kInfinity) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

template <float (*Widen)(std::uint16_t)>
void widen(std::span<const std::byte> stored, std::span<float> out) {
  const std::byte* from = stored.data();
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t value = 0;
    std::memcpy(&value, from + 2 * i, sizeof value);
    out[i] = Widen(value);
  }
}

template <std::uint16_t (*Narrow)(float)>
void narrow(std::span<const float> values, std::span<std::byte> stored) {
  std::byte* to = stored.data();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t value = Narrow(values[i]);
    std::memcpy(to + 2 * i, &value, sizeof value);
  }
}

void check_sizes(model::DType dtype, std::size_t stored, std::size_t elements) {
  require(stored == elements * static_cast<std::size_t>(model::size_of(dtype)),
          "conversion: stored bytes do not match the number of elements");
}

// Files are little-endian, and so is every machine that this is built for.
static_assert(std::endian::native == std::endian::little);

}  // namespace

void to_f32(model::DType dtype, std::span<const std::byte> stored, std::span<float> out) {
  check_sizes(dtype, stored.size(), out.size());
  if (out.empty()) return;
  switch (dtype) {
    case model::DType::f32:
      std::memcpy(out.data(), stored.data(), stored.size());
      break;
    case model::DType::f16:
      widen<f16_to_f32>(stored, out);
      break;
    case model::DType::bf16:
      widen<bf16_to_f32>(stored, out);
      break;
  }
}

void from_f32(model::DType dtype, std::span<const float> values, std::span<std::byte> stored) {
  check_sizes(dtype, stored.size(), values.size());
  if (values.empty()) return;
  switch (dtype) {
    case model::DType::f32:
      std::memcpy(stored.data(), values.data(), stored.size());
      break;
    case model::DType::f16:
      narrow<f32_to_f16>(values, stored);
      break;
    case model::DType::bf16:
      narrow<f32_to_bf16>(values, stored);
      break;
  }
}

}  // namespace tandem::exec
