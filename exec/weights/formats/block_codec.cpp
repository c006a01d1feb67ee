#include "exec/weights/formats/block_codec.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "exec/weights/formats/convert.hpp"
#include "exec/weights/formats/k_codec.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

using model::WeightFormat;

constexpr std::size_t kBlock = 32;
constexpr std::size_t kScaleBytes = 2;
static_assert(model::block_of(WeightFormat::q8_0).elements == kBlock &&
              model::block_of(WeightFormat::q8_0).bytes == kScaleBytes + kBlock);
static_assert(model::block_of(WeightFormat::q4_0).elements == kBlock &&
              model::block_of(WeightFormat::q4_0).bytes == kScaleBytes + kBlock / 2);

float read_scale(const std::byte* block) {
  float scale = 0.0F;
  to_f32(model::DType::f16, {block, kScaleBytes}, {&scale, 1});
  return scale;
}

void write_scale(float scale, std::byte* block) {
  from_f32(model::DType::f16, {&scale, 1}, {block, kScaleBytes});
}

// Returns the reciprocal by which ggml multiplies instead of dividing.
float inverse(float scale) { return scale != 0.0F ? 1.0F / scale : 0.0F; }

void decode_q8_0(const std::byte* block, float* out) {
  const float scale = read_scale(block);
  for (std::size_t i = 0; i < kBlock; ++i) {
    const auto q = static_cast<std::int8_t>(block[kScaleBytes + i]);
    out[i] = static_cast<float>(q) * scale;
  }
}

void decode_q4_0(const std::byte* block, float* out) {
  const float scale = read_scale(block);
  for (std::size_t i = 0; i < kBlock / 2; ++i) {
    const int both = std::to_integer<int>(block[kScaleBytes + i]);
    out[i] = static_cast<float>((both & 0xf) - 8) * scale;
    out[i + kBlock / 2] = static_cast<float>((both >> 4) - 8) * scale;
  }
}

void encode_q8_0(const float* x, std::byte* block) {
  float most = 0.0F;
  for (std::size_t i = 0; i < kBlock; ++i) most = std::max(most, std::abs(x[i]));
  const float scale = most / 127.0F;
  const float by = inverse(scale);
  write_scale(scale, block);
  for (std::size_t i = 0; i < kBlock; ++i) {
    // For numbers so small that the reciprocal is infinite only the scale, 0, remains.
    const float q = std::isfinite(by) ? std::round(x[i] * by) : 0.0F;
    block[kScaleBytes + i] = static_cast<std::byte>(static_cast<std::int8_t>(q));
  }
}

// For scales so small that their inverse overflows, which F16 stores as 0, ggml's integers are all
// 0.
int nibble(float x, float by) {
  if (!std::isfinite(by)) return 0;
  const float quotient = x * by;
  return std::min(15, static_cast<int>(quotient + 8.5F));
}

void encode_q4_0(const float* x, std::byte* block) {
  float most = 0.0F;
  float extreme = 0.0F;
  for (std::size_t i = 0; i < kBlock; ++i) {
    if (std::abs(x[i]) <= most) continue;
    most = std::abs(x[i]);
    extreme = x[i];
  }
  const float scale = extreme / -8.0F;
  const float by = inverse(scale);
  write_scale(scale, block);
  for (std::size_t i = 0; i < kBlock / 2; ++i) {
    const int low = nibble(x[i], by);
    const int high = nibble(x[i + kBlock / 2], by);
    block[kScaleBytes + i] = static_cast<std::byte>(low | (high << 4));
  }
}

// q4_1, q5_0 and q5_1: a scale, of the second kind also a least number, then the fifth bits of all
// weights if they have five, then halves.
template <bool kLeast, bool kFifth>
struct Halves {
  static constexpr std::size_t kBits = kLeast ? 4 : 2;
  static constexpr std::size_t kBytes = kBits + (kFifth ? 4 : 0);
  static constexpr int kLevels = kFifth ? 32 : 16;
  static constexpr int kZero = kLevels / 2;  // that stands for 0, without a least number

  static void decode(const std::byte* block, float* out) {
    const float scale = read_scale(block);
    std::uint32_t fifth = 0;
    if constexpr (kFifth) std::memcpy(&fifth, block + kBits, sizeof fifth);
    for (std::size_t i = 0; i < kBlock; ++i) {
      const int half = std::to_integer<int>(block[kBytes + i % 16]) >> (i / 16 * 4) & 15;
      const int q = half | static_cast<int>(fifth >> i & 1U) << 4;
      if constexpr (kLeast) {
        out[i] = static_cast<float>(q) * scale + read_scale(block + 2);
      } else {
        out[i] = static_cast<float>(q - kZero) * scale;
      }
    }
  }

  static void encode(const float* x, std::byte* block) {
    float least = 0.0F;
    float scale = 0.0F;
    if constexpr (kLeast) {
      const auto [low, high] = std::minmax_element(x, x + kBlock);
      least = *low;
      scale = (*high - *low) / static_cast<float>(kLevels - 1);
      write_scale(least, block + 2);
    } else {
      const float* const extreme = std::max_element(
          x, x + kBlock, [](float a, float b) { return std::abs(a) < std::abs(b); });
      scale = (*extreme + 0.0F) / static_cast<float>(-kZero);  // not of -0
    }
    const float by = inverse(scale);
    write_scale(scale, block);
    std::memset(block + kBits, 0, kBytes - kBits + kBlock / 2);
    std::uint32_t fifth = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
      const float middle = kLeast ? 0.5F : static_cast<float>(kZero) + 0.5F;
      int q = 0;
      if (std::isfinite(by))
        q = std::min(kLevels - 1, static_cast<int>((x[i] - least) * by + middle));
      block[kBytes + i % 16] |= static_cast<std::byte>((q & 15) << (i / 16 * 4));
      fifth |= static_cast<std::uint32_t>(q >> 4) << i;
    }
    if constexpr (kFifth) std::memcpy(block + kBits, &fifth, sizeof fifth);
  }
};

void decode_iq4_nl(const std::byte* block, float* out) {
  const float scale = read_scale(block);
  for (std::size_t i = 0; i < kBlock / 2; ++i) {
    const int both = std::to_integer<int>(block[kScaleBytes + i]);
    out[i] = scale * kUneven[both & 15];
    out[i + kBlock / 2] = scale * kUneven[both >> 4];
  }
}

void encode_iq4_nl(const float* x, std::byte* block) {
  const float* const extreme =
      std::max_element(x, x + kBlock, [](float a, float b) { return std::abs(a) < std::abs(b); });
  const float scale = *extreme / kUneven[0];
  write_scale(scale, block);
  const float by = std::isfinite(inverse(scale)) ? inverse(scale) : 0.0F;
  for (std::size_t i = 0; i < kBlock / 2; ++i)
    block[kScaleBytes + i] = static_cast<std::byte>(nearest_uneven(x[i] * by) |
                                                    nearest_uneven(x[i + kBlock / 2] * by) << 4);
}

// Calls one(numbers, bytes) of each block.
template <class Number, class Byte, class One>
void for_blocks(std::span<Number> numbers, std::span<Byte> stored, WeightFormat format,
                const One& one) {
  const model::FormatBlock size = model::block_of(format);
  const auto bytes = static_cast<std::size_t>(size.bytes);
  const auto elements = static_cast<std::size_t>(size.elements);
  for (std::size_t block = 0; block < numbers.size() / elements; ++block)
    one(numbers.data() + block * elements, stored.data() + block * bytes);
}

// As above, with the decoder of one format's block.
void decode_blocks(WeightFormat format, std::span<const std::byte> stored, std::span<float> out,
                   void (*one)(const std::byte*, float*)) {
  for_blocks(out, stored, format, [one](float* to, const std::byte* block) { one(block, to); });
}

void check_sizes(WeightFormat format, std::size_t bytes, std::size_t numbers) {
  const model::FormatBlock block = model::block_of(format);
  require(numbers % static_cast<std::size_t>(block.elements) == 0 &&
              bytes == numbers / static_cast<std::size_t>(block.elements) *
                           static_cast<std::size_t>(block.bytes),
          "codec: bytes of whole blocks, as many as there are numbers");
}

}  // namespace

void decode(WeightFormat format, std::span<const std::byte> stored, std::span<float> out) {
  check_sizes(format, stored.size(), out.size());
  switch (format) {
    case WeightFormat::f32:
      return to_f32(model::DType::f32, stored, out);
    case WeightFormat::f16:
      return to_f32(model::DType::f16, stored, out);
    case WeightFormat::bf16:
      return to_f32(model::DType::bf16, stored, out);
    case WeightFormat::q8_0:
      return decode_blocks(format, stored, out, decode_q8_0);
    case WeightFormat::q4_0:
      return decode_blocks(format, stored, out, decode_q4_0);
    case WeightFormat::q4_1:
      return decode_blocks(format, stored, out, Halves<true, false>::decode);
    case WeightFormat::q5_0:
      return decode_blocks(format, stored, out, Halves<false, true>::decode);
    case WeightFormat::q5_1:
      return decode_blocks(format, stored, out, Halves<true, true>::decode);
    case WeightFormat::iq4_nl:
      return decode_blocks(format, stored, out, decode_iq4_nl);
    case WeightFormat::q2_k:
    case WeightFormat::q3_k:
    case WeightFormat::q4_k:
    case WeightFormat::q5_k:
    case WeightFormat::q6_k:
    case WeightFormat::iq4_xs:
      return for_blocks(out, stored, format, [format](float* to, const std::byte* block) {
        decode_long_block(format, block, to);
      });
    case WeightFormat::fp8:
    case WeightFormat::mxfp4:
    case WeightFormat::nvfp4:
      break;  // only planned
  }
  throw std::logic_error("weight format out of range");
}

void encode(WeightFormat format, std::span<const float> values, std::span<std::byte> stored) {
  check_sizes(format, stored.size(), values.size());
  switch (format) {
    case WeightFormat::f32:
      return from_f32(model::DType::f32, values, stored);
    case WeightFormat::f16:
      return from_f32(model::DType::f16, values, stored);
    case WeightFormat::bf16:
      return from_f32(model::DType::bf16, values, stored);
    case WeightFormat::q8_0:
      return for_blocks(values, stored, format, encode_q8_0);
    case WeightFormat::q4_0:
      return for_blocks(values, stored, format, encode_q4_0);
    case WeightFormat::q4_1:
      return for_blocks(values, stored, format, Halves<true, false>::encode);
    case WeightFormat::q5_0:
      return for_blocks(values, stored, format, Halves<false, true>::encode);
    case WeightFormat::q5_1:
      return for_blocks(values, stored, format, Halves<true, true>::encode);
    case WeightFormat::iq4_nl:
      return for_blocks(values, stored, format, encode_iq4_nl);
    case WeightFormat::q2_k:
    case WeightFormat::q3_k:
    case WeightFormat::q4_k:
    case WeightFormat::q5_k:
    case WeightFormat::q6_k:
    case WeightFormat::iq4_xs:
      return for_blocks(values, stored, format, [format](const float* x, std::byte* block) {
        encode_long_block(format, x, block);
      });
    case WeightFormat::fp8:
    case WeightFormat::mxfp4:
    case WeightFormat::nvfp4:
      break;  // only planned
  }
  throw std::logic_error("weight format out of range");
}

}  // namespace tandem::exec
