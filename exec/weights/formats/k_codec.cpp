#include "exec/weights/formats/k_codec.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "exec/weights/formats/convert.hpp"

namespace tandem::exec {
namespace {

using model::WeightFormat;

float half_at(const std::byte* from) {
  float value = 0.0F;
  to_f32(model::DType::f16, {from, 2}, {&value, 1});
  return value;
}

int byte_at(const std::byte* from, std::size_t i) { return std::to_integer<int>(from[i]); }

// Parts of 16 with a scale and a least number in a byte; two bits a weight. Of each 128 weights 32
// bytes, with the first 32 of them in the lowest bits.
void decode_q2_k(const std::byte* block, float* out) {
  const float d = half_at(block + 80);
  const float least = half_at(block + 82);
  for (std::size_t i = 0; i < kLongBlock; ++i) {
    const int part = byte_at(block, i / 16);
    const std::size_t within = i % 128;
    const int q = byte_at(block, 16 + i / 128 * 32 + within % 32) >> (within / 32 * 2) & 3;
    out[i] = d * static_cast<float>(part & 15) * static_cast<float>(q) -
             least * static_cast<float>(part >> 4);
  }
}

void decode_q3_k(const std::byte* block, float* out) {
  const float d = half_at(block + 108);
  for (std::size_t i = 0; i < kLongBlock; ++i) {
    const std::size_t within = i % 128;
    const int low = byte_at(block, 32 + i / 128 * 32 + within % 32) >> (within / 32 * 2) & 3;
    const int high = byte_at(block, i % 32) >> (i / 32) & 1;
    const float scale = d * static_cast<float>(scale_of_q3_k(block + 96, i / 16));
    out[i] = scale * static_cast<float>(low - (high != 0 ? 0 : 4));
  }
}

// q4_k, and with a fifth bit q5_k: of each 64 weights 32 bytes, the first 32 in the low halves.
template <bool kFifth>
void decode_q45_k(const std::byte* block, float* out) {
  const float d = half_at(block);
  const float least = half_at(block + 2);
  const std::byte* const halves = block + (kFifth ? 48 : 16);
  for (std::size_t part = 0; part < 8; ++part) {
    const PartScale of = part_scale(block + 4, part);
    const float scale = d * static_cast<float>(of.scale);
    const float minus = least * static_cast<float>(of.least);
    for (std::size_t i = 0; i < 32; ++i) {
      int q = byte_at(halves, part / 2 * 32 + i) >> (part % 2 * 4) & 15;
      if constexpr (kFifth) q |= (byte_at(block, 16 + i) >> part & 1) << 4;
      out[32 * part + i] = scale * static_cast<float>(q) - minus;
    }
  }
}

// Every 128 weights have 64 bytes of low halves and 32 of the highest two bits.
void decode_q6_k(const std::byte* block, float* out) {
  const float d = half_at(block + 208);
  for (std::size_t i = 0; i < kLongBlock; ++i) {
    const std::size_t within = i % 128;
    const int low = byte_at(block, i / 128 * 64 + within % 64) >> (within / 64 * 4) & 15;
    const int high = byte_at(block, 128 + i / 128 * 32 + within % 32) >> (within / 32 * 2) & 3;
    const auto scale = static_cast<std::int8_t>(block[192 + i / 16]);
    out[i] = d * static_cast<float>(scale) * static_cast<float>((low | high << 4) - 32);
  }
}

void decode_iq4_xs(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (std::size_t part = 0; part < 8; ++part) {
    const int low = byte_at(block, 4 + part / 2) >> (part % 2 * 4) & 15;
    const int high = byte_at(block, 2 + part / 4) >> (part % 4 * 2) & 3;
    const float scale = d * static_cast<float>((low | high << 4) - 32);
    for (std::size_t i = 0; i < 16; ++i) {
      const int both = byte_at(block, 8 + 16 * part + i);
      out[32 * part + i] = scale * kUneven[both & 15];
      out[32 * part + i + 16] = scale * kUneven[both >> 4];
    }
  }
}

}  // namespace

int nearest_uneven(float x) {
  int best = 0;
  while (best < 15 && x - kUneven[best] > kUneven[best + 1] - x) ++best;
  return best;
}

void decode_long_block(WeightFormat format, const std::byte* block, float* out) {
  if (format == WeightFormat::q2_k) return decode_q2_k(block, out);
  if (format == WeightFormat::q3_k) return decode_q3_k(block, out);
  if (format == WeightFormat::q4_k) return decode_q45_k<false>(block, out);
  if (format == WeightFormat::q5_k) return decode_q45_k<true>(block, out);
  if (format == WeightFormat::q6_k) return decode_q6_k(block, out);
  if (format == WeightFormat::iq4_xs) return decode_iq4_xs(block, out);
  throw std::logic_error("decode: a format of 256 weights a block");
}

}  // namespace tandem::exec
