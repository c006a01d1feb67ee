#include "exec/kernels/wire_row.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "exec/weights/formats/convert.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

using model::WireFormat;

constexpr std::size_t kBlock = model::wire_block(WireFormat::q8_0);
constexpr std::size_t kScaleBytes = model::kWireScaleBytes;
constexpr float kMostLevel = 127.0F;

constexpr std::uint32_t kInfinity = 0x7f800000U;

bool all_finite(std::span<const float> values) {
  std::uint32_t others = 0;
  for (const float value : values)
    others += (std::bit_cast<std::uint32_t>(value) & kInfinity) == kInfinity ? 1U : 0U;
  return others == 0;
}

// The largest magnitude of finite numbers: in lanes, as compilers keep the order of floats.
float most_of(std::span<const float> values) {
  constexpr std::size_t kLanes = 8;
  std::array<float, kLanes> most{};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float value = std::abs(values[i + lane]);
      most[lane] = most[lane] < value ? value : most[lane];
    }
  }
  for (; i < values.size(); ++i) most[0] = std::max(most[0], std::abs(values[i]));
  return *std::ranges::max_element(most);
}

// Whether the numbers and the scale are finite.
bool encode_block(std::span<const float> x, std::byte* sent) {
  // Beyond 2^23 a float has no fraction: adding and subtracting 1.5 times that rounds to even.
  constexpr float kRounding = 12582912.0F;
  if (!all_finite(x)) return false;
  const float most = most_of(x);
  const float scale = most / kMostLevel;
  from_f32(model::DType::f16, {&scale, 1}, {sent, kScaleBytes});
  float stored = 0.0F;
  to_f32(model::DType::f16, {sent, kScaleBytes}, {&stored, 1});
  // What is too small for a scale is 0, not -0: rounded again, it would be.
  const float factor = stored > 0.0F ? 1.0F / scale : 0.0F;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float level = (x[i] * factor + kRounding) - kRounding;
    sent[kScaleBytes + i] = static_cast<std::byte>(static_cast<std::int8_t>(level));
  }
  return true;
}

void decode_block(const std::byte* sent, std::span<float> x) {
  float scale = 0.0F;
  to_f32(model::DType::f16, {sent, kScaleBytes}, {&scale, 1});
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<std::int8_t>(sent[kScaleBytes + i])) * scale;
}

// Calls one(numbers, bytes) of each block of a row.
template <class Number, class Byte, class One>
void for_blocks(std::span<Number> row, std::span<Byte> sent, const One& one) {
  std::size_t byte = 0;
  for (std::size_t at = 0; at < row.size(); at += kBlock) {
    const std::span<Number> block = row.subspan(at, std::min(kBlock, row.size() - at));
    one(block, sent.data() + byte);
    byte += kScaleBytes + block.size();
  }
}

void check_size(WireFormat format, std::size_t numbers, std::size_t bytes) {
  const std::int64_t expected = model::wire_row_bytes(format, static_cast<std::int64_t>(numbers));
  require(bytes == static_cast<std::size_t>(expected), "wire: as many bytes as the row takes");
}

}  // namespace

bool encode_row(WireFormat format, std::span<float> row, std::span<std::byte> sent) {
  check_size(format, row.size(), sent.size());
  bool finite = true;
  switch (format) {
    case WireFormat::f32:
      from_f32(model::DType::f32, row, sent);
      return true;
    case WireFormat::f16:
      from_f32(model::DType::f16, row, sent);
      break;
    case WireFormat::bf16:
      from_f32(model::DType::bf16, row, sent);
      break;
    case WireFormat::q8_0:
      for_blocks(row, sent, [&](std::span<float> x, std::byte* bytes) {
        finite = encode_block(x, bytes) && finite;
      });
      break;
  }
  if (!finite) return false;
  decode_row(format, sent, row);
  return all_finite(row);
}

void decode_row(WireFormat format, std::span<const std::byte> sent, std::span<float> row) {
  check_size(format, row.size(), sent.size());
  switch (format) {
    case WireFormat::f32:
      return to_f32(model::DType::f32, sent, row);
    case WireFormat::f16:
      return to_f32(model::DType::f16, sent, row);
    case WireFormat::bf16:
      return to_f32(model::DType::bf16, sent, row);
    case WireFormat::q8_0:
      return for_blocks(row, sent,
                        [](std::span<float> x, const std::byte* bytes) { decode_block(bytes, x); });
  }
  throw std::logic_error("wire format out of range");
}

}  // namespace tandem::exec
