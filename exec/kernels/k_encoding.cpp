// Encoders of the formats of 256 weights a block (exec/weights/formats/k_codec.hpp).

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "exec/kernels/scale_search.hpp"
#include "exec/weights/formats/convert.hpp"
#include "exec/weights/formats/k_codec.hpp"

namespace tandem::exec {
namespace {

using model::WeightFormat;

constexpr float kTooSmall = 1e-15F;  // numbers of which nothing is left

// Rounded to f16 and written; what is read again.
float write_half(float value, std::byte* to) {
  from_f32(model::DType::f16, {&value, 1}, {to, 2});
  float back = 0.0F;
  to_f32(model::DType::f16, {to, 2}, {&back, 1});
  return back;
}

// The whole number nearest to x among least ... most, ties to even; of NaN 0. As std::lrint, in a
// form that compilers vectorize.
int level(float x, int least, int most) {
  constexpr float kAllWhole = 0x1.8p23F;  // plus such a number, a sum has no bits for a fraction
  x = std::isnan(x) ? 0.0F : x;
  x = std::clamp(x, static_cast<float>(least), static_cast<float>(most));
  return static_cast<int>((x + kAllWhole) - kAllWhole);
}

void merge(std::byte& into, int bits) { into |= static_cast<std::byte>(bits); }

using Levels = std::array<int, kLongBlock>;  // of the numbers of a block

// Parts of a block with scale and least number, the largest of which the block's halves say.
template <std::size_t kParts>
struct AffineParts {
  std::array<int, kParts> scales{};
  std::array<int, kParts> leasts{};
  AffineScales<kParts> read{};  // as they are decoded

  // `halves`: where d and the least number's stand.
  AffineParts(const AffineScales<kParts>& parts, int most, std::byte* halves) {
    float scale = 0.0F;
    float least = 0.0F;
    for (std::size_t i = 0; i < kParts; ++i) {
      scale = std::max(scale, parts.scale[i]);
      least = std::max(least, parts.least[i]);
    }
    const auto levels = static_cast<float>(most);
    const float d = write_half(scale / levels, halves);
    const float m = write_half(least / levels, halves + 2);
    for (std::size_t i = 0; i < kParts; ++i) {
      if (scale > 0.0F) scales[i] = level(parts.scale[i] * (levels / scale), 0, most);
      if (least > 0.0F) leasts[i] = level(parts.least[i] * (levels / least), 0, most);
      read.scale[i] = d * static_cast<float>(scales[i]);
      read.least[i] = m * static_cast<float>(leasts[i]);
    }
  }
  [[nodiscard]] Levels levels_of(const float* x, int most) const {
    constexpr std::size_t kSize = kLongBlock / kParts;
    Levels q{};
    for (std::size_t part = 0; part < kParts; ++part) {
      if (read.scale[part] == 0.0F) continue;
      for (std::size_t i = kSize * part; i < kSize * (part + 1); ++i)
        q[i] = level((x[i] + read.least[part]) / read.scale[part], 0, most);
    }
    return q;
  }
};

template <bool kFifth>
void encode_q45_k(const float* x, std::byte* block) {
  constexpr int kMost = kFifth ? 31 : 15;
  constexpr ScaleTrials kTrials =
      kFifth ? ScaleTrials{kMost, -0.5F, 0.1F, 15} : ScaleTrials{kMost, -1.0F, 0.1F, 20};
  const AffineParts<8> parts(search_squares(x, kTrials), 63, block);
  std::byte* const scales = block + 4;
  for (std::size_t i = 0; i < 4; ++i) {
    merge(scales[i], parts.scales[i] | parts.scales[i + 4] >> 4 << 6);
    merge(scales[i + 4], parts.leasts[i] | parts.leasts[i + 4] >> 4 << 6);
    merge(scales[i + 8], (parts.scales[i + 4] & 15) | (parts.leasts[i + 4] & 15) << 4);
  }
  std::byte* const halves = block + (kFifth ? 48 : 16);
  const Levels q = parts.levels_of(x, kMost);
  for (std::size_t part = 0; part < 8; ++part) {
    for (std::size_t i = 0; i < 32; ++i) {
      const int one = q[32 * part + i];
      merge(halves[part / 2 * 32 + i], (one & 15) << (part % 2 * 4));
      if constexpr (kFifth) merge(block[16 + i], (one >> 4) << part);
    }
  }
}

void encode_q2_k(const float* x, std::byte* block) {
  const AffineParts<16> parts(search_magnitudes(x, {3, -0.5F, 0.1F, 15}), 15, block + 80);
  for (std::size_t part = 0; part < 16; ++part)
    merge(block[part], parts.scales[part] | parts.leasts[part] << 4);
  const Levels q = parts.levels_of(x, 3);
  for (std::size_t i = 0; i < kLongBlock; ++i) {
    const std::size_t within = i % 128;
    merge(block[16 + i / 128 * 32 + within % 32], q[i] << (within / 32 * 2));
  }
}

// Parts of a block with scales of either sign, the largest of which is the lowest level.
template <std::size_t kParts>
struct ScaledParts {
  std::array<int, kParts> scales{};
  std::array<float, kParts> read{};

  ScaledParts(const std::array<float, kParts>& parts, int most, std::byte* half) {
    const float extreme = *std::ranges::max_element(parts, {}, [](float v) { return std::abs(v); });
    if (std::abs(extreme) < kTooSmall) return;
    const float by = -static_cast<float>(most) / extreme;
    const float d = write_half(1.0F / by, half);
    for (std::size_t i = 0; i < kParts; ++i) {
      scales[i] = level(by * parts[i], -most, most - 1);
      read[i] = d * static_cast<float>(scales[i]);
    }
  }
  [[nodiscard]] Levels levels_of(const float* x, int most) const {
    constexpr std::size_t kSize = kLongBlock / kParts;
    Levels q{};
    for (std::size_t part = 0; part < kParts; ++part) {
      if (read[part] == 0.0F) continue;
      for (std::size_t i = kSize * part; i < kSize * (part + 1); ++i)
        q[i] = level(x[i] / read[part], -most, most - 1);
    }
    return q;
  }
};

void encode_q3_k(const float* x, std::byte* block) {
  const ScaledParts<16> parts(search_scales(x, 4), 32, block + 108);
  const Levels levels = parts.levels_of(x, 4);
  for (std::size_t part = 0; part < 16; ++part) {
    const int scale = parts.scales[part] + 32;
    merge(block[96 + part % 8], (scale & 15) << (part < 8 ? 0 : 4));
    merge(block[104 + part % 4], (scale >> 4) << (2 * (part / 4)));
  }
  for (std::size_t i = 0; i < kLongBlock; ++i) {
    const int q = levels[i] + 4;
    const std::size_t within = i % 128;
    merge(block[32 + i / 128 * 32 + within % 32], (q & 3) << (within / 32 * 2));
    merge(block[i % 32], (q >> 2) << (i / 32));
  }
}

void encode_q6_k(const float* x, std::byte* block) {
  const ScaledParts<16> parts(search_scales(x, 32), 128, block + 208);
  const Levels levels = parts.levels_of(x, 32);
  for (std::size_t part = 0; part < 16; ++part)
    block[192 + part] = static_cast<std::byte>(static_cast<std::int8_t>(parts.scales[part]));
  for (std::size_t i = 0; i < kLongBlock; ++i) {
    const int q = levels[i] + 32;
    const std::size_t within = i % 128;
    merge(block[i / 128 * 64 + within % 64], (q & 15) << (within / 64 * 4));
    merge(block[128 + i / 128 * 32 + within % 32], (q >> 4) << (within / 32 * 2));
  }
}

void encode_iq4_xs(const float* x, std::byte* block) {
  std::array<float, 8> scales{};
  for (std::size_t part = 0; part < 8; ++part) {
    const std::span<const float> some(x + 32 * part, 32);
    scales[part] =
        *std::ranges::max_element(some, {}, [](float v) { return std::abs(v); }) / kUneven[0];
  }
  const ScaledParts<8> parts(scales, 32, block);
  for (std::size_t part = 0; part < 8; ++part) {
    const int scale = parts.scales[part] + 32;
    merge(block[4 + part / 2], (scale & 15) << (part % 2 * 4));
    merge(block[2 + part / 4], (scale >> 4) << (part % 4 * 2));
    const float by = parts.read[part] == 0.0F ? 0.0F : 1.0F / parts.read[part];
    for (std::size_t i = 0; i < 32; ++i)
      merge(block[8 + 16 * part + i % 16], nearest_uneven(x[32 * part + i] * by)
                                               << (i < 16 ? 0 : 4));
  }
}

}  // namespace

void encode_long_block(WeightFormat format, const float* x, std::byte* block) {
  std::memset(block, 0, static_cast<std::size_t>(model::block_of(format).bytes));
  if (format == WeightFormat::q2_k) return encode_q2_k(x, block);
  if (format == WeightFormat::q3_k) return encode_q3_k(x, block);
  if (format == WeightFormat::q4_k) return encode_q45_k<false>(x, block);
  if (format == WeightFormat::q5_k) return encode_q45_k<true>(x, block);
  if (format == WeightFormat::q6_k) return encode_q6_k(x, block);
  if (format == WeightFormat::iq4_xs) return encode_iq4_xs(x, block);
  throw std::logic_error("encode: a format of 256 weights a block");
}

}  // namespace tandem::exec
