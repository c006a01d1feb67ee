#include "exec/weights/block_codec.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "exec/weights/convert.hpp"
#include "model/error.hpp"

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

// What a number is divided by, as ggml divides: by a product with the reciprocal.
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
    // Of numbers so small that the reciprocal is infinite nothing is left but the scale, which is
    // 0.
    const float q = std::isfinite(by) ? std::round(x[i] * by) : 0.0F;
    block[kScaleBytes + i] = static_cast<std::byte>(static_cast<std::int8_t>(q));
  }
}

int nibble(float x, float by) {
  if (!std::isfinite(by)) return 8;
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

// Blocks of kBlock numbers and `bytes` bytes.
template <class Number, class Byte>
void for_blocks(std::span<Number> numbers, std::span<Byte> stored, WeightFormat format,
                void (*one)(Number*, Byte*)) {
  const auto bytes = static_cast<std::size_t>(model::block_of(format).bytes);
  for (std::size_t block = 0; block < numbers.size() / kBlock; ++block)
    one(numbers.data() + block * kBlock, stored.data() + block * bytes);
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
      return for_blocks<float, const std::byte>(
          out, stored, format, [](float* to, const std::byte* block) { decode_q8_0(block, to); });
    case WeightFormat::q4_0:
      return for_blocks<float, const std::byte>(
          out, stored, format, [](float* to, const std::byte* block) { decode_q4_0(block, to); });
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
      return for_blocks<const float, std::byte>(values, stored, format, encode_q8_0);
    case WeightFormat::q4_0:
      return for_blocks<const float, std::byte>(values, stored, format, encode_q4_0);
  }
  throw std::logic_error("weight format out of range");
}

}  // namespace tandem::exec
