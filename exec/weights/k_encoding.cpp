// Encoders of the formats of 256 weights a block (exec/weights/k_codec.hpp).

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>

#include "exec/weights/convert.hpp"
#include "exec/weights/k_codec.hpp"

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

int level(float x, int least, int most) {
  return std::clamp(static_cast<int>(std::lrint(std::clamp(x, -1e6F, 1e6F))), least, most);
}

void merge(std::byte& into, int bits) { into |= static_cast<std::byte>(bits); }

// x is about  scale q - least,  0 <= q <= most.
struct Affine {
  float scale = 0.0F;
  float least = 0.0F;
};

// Tries `steps` + 1 scales around the one that covers all of x, each with the best scale and least
// number for its levels (weighed least squares), and takes the one that loses least. `absolute`:
// by magnitudes instead of squares.
struct Trials {
  float first, step;
  int steps;
  bool absolute;
};

Affine best_affine(std::span<const float> x, std::span<const float> weights, int most,
                   Trials trials) {
  const auto [low, high] = std::ranges::minmax(x);
  const float least = std::min(low, 0.0F);
  if (high <= least) return {0.0F, -least};
  float sum_w = 0.0F;
  float sum_x = 0.0F;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum_w += weights[i];
    sum_x += weights[i] * x[i];
  }
  std::array<float, 32> q{};
  const auto loss = [&](Affine a) {
    float sum = 0.0F;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float off = std::abs(a.scale * q[i] - a.least - x[i]);
      sum += weights[i] * (trials.absolute ? off : off * off);
    }
    return sum;
  };
  const auto levels_of = [&](float by) {
    for (std::size_t i = 0; i < x.size(); ++i)
      q[i] = static_cast<float>(level(by * (x[i] - least), 0, most));
  };
  const auto levels = static_cast<float>(most);
  Affine best{(high - least) / levels, -least};
  levels_of(levels / (high - least));
  float lost = loss(best);
  for (int trial = 0; trial <= trials.steps; ++trial) {
    levels_of((trials.first + trials.step * static_cast<float>(trial) + levels) / (high - least));
    float sum_q = 0.0F;
    float sum_qq = 0.0F;
    float sum_xq = 0.0F;
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum_q += weights[i] * q[i];
      sum_qq += weights[i] * q[i] * q[i];
      sum_xq += weights[i] * x[i] * q[i];
    }
    const float determinant = sum_w * sum_qq - sum_q * sum_q;
    if (determinant <= 0.0F) continue;
    Affine fitted{(sum_w * sum_xq - sum_x * sum_q) / determinant,
                  -(sum_qq * sum_x - sum_q * sum_xq) / determinant};
    if (fitted.least < 0.0F) fitted = {sum_xq / sum_qq, 0.0F};
    const float now = loss(fitted);
    if (now >= lost) continue;
    lost = now;
    best = fitted;
  }
  return best;
}

// x is about  scale q,  -most <= q < most:  as above, of scales around the one that makes the
// largest number the lowest level; large numbers weigh more.
float best_scale(std::span<const float> x, int most) {
  const float extreme = *std::ranges::max_element(x, {}, [](float v) { return std::abs(v); });
  if (std::abs(extreme) < kTooSmall) return 0.0F;
  float best = 0.0F;
  float gained = 0.0F;
  for (int trial = -9; trial <= 9; ++trial) {
    const float by = -(static_cast<float>(most) + 0.1F * static_cast<float>(trial)) / extreme;
    float sum_xq = 0.0F;
    float sum_qq = 0.0F;
    for (const float v : x) {
      const auto q = static_cast<float>(level(by * v, -most, most - 1));
      const float weight = v * v;
      sum_xq += weight * v * q;
      sum_qq += weight * q * q;
    }
    if (sum_qq <= 0.0F || sum_xq * sum_xq <= gained * sum_qq) continue;
    best = sum_xq / sum_qq;
    gained = best * sum_xq;
  }
  return best;
}

// Parts of a block with scale and least number, the largest of which the block's halves say.
template <std::size_t kParts>
struct AffineParts {
  std::array<int, kParts> scales{};
  std::array<int, kParts> leasts{};
  std::array<Affine, kParts> read{};  // as they are decoded

  // `halves`: where d and the least number's stand.
  AffineParts(const std::array<Affine, kParts>& parts, int most, std::byte* halves) {
    float scale = 0.0F;
    float least = 0.0F;
    for (const Affine& part : parts) {
      scale = std::max(scale, part.scale);
      least = std::max(least, part.least);
    }
    const auto levels = static_cast<float>(most);
    const float d = write_half(scale / levels, halves);
    const float m = write_half(least / levels, halves + 2);
    for (std::size_t i = 0; i < kParts; ++i) {
      if (scale > 0.0F) scales[i] = level(parts[i].scale * (levels / scale), 0, most);
      if (least > 0.0F) leasts[i] = level(parts[i].least * (levels / least), 0, most);
      read[i] = {d * static_cast<float>(scales[i]), m * static_cast<float>(leasts[i])};
    }
  }
  [[nodiscard]] int quantised(float x, std::size_t part, int most) const {
    if (read[part].scale == 0.0F) return 0;
    return level((x + read[part].least) / read[part].scale, 0, most);
  }
};

// Numbers weigh as they do in ggml: by their size, beside that of all.
std::array<float, 32> weights_of(std::span<const float> x) {
  float squares = 0.0F;
  for (const float v : x) squares += v * v;
  const float mean = std::sqrt(squares / static_cast<float>(x.size()));
  std::array<float, 32> weights{};
  for (std::size_t i = 0; i < x.size(); ++i) weights[i] = mean + std::abs(x[i]);
  return weights;
}

template <bool kFifth>
void encode_q45_k(const float* x, std::byte* block) {
  constexpr int kMost = kFifth ? 31 : 15;
  constexpr Trials kTrials =
      kFifth ? Trials{-0.5F, 0.1F, 15, false} : Trials{-1.0F, 0.1F, 20, false};
  std::array<Affine, 8> found{};
  for (std::size_t part = 0; part < 8; ++part) {
    const std::span<const float> some(x + 32 * part, 32);
    found[part] = best_affine(some, weights_of(some), kMost, kTrials);
  }
  const AffineParts<8> parts(found, 63, block);
  std::byte* const scales = block + 4;
  for (std::size_t i = 0; i < 4; ++i) {
    merge(scales[i], parts.scales[i] | parts.scales[i + 4] >> 4 << 6);
    merge(scales[i + 4], parts.leasts[i] | parts.leasts[i + 4] >> 4 << 6);
    merge(scales[i + 8], (parts.scales[i + 4] & 15) | (parts.leasts[i + 4] & 15) << 4);
  }
  std::byte* const halves = block + (kFifth ? 48 : 16);
  for (std::size_t part = 0; part < 8; ++part) {
    for (std::size_t i = 0; i < 32; ++i) {
      const int q = parts.quantised(x[32 * part + i], part, kMost);
      merge(halves[part / 2 * 32 + i], (q & 15) << (part % 2 * 4));
      if constexpr (kFifth) merge(block[16 + i], (q >> 4) << part);
    }
  }
}

void encode_q2_k(const float* x, std::byte* block) {
  std::array<Affine, 16> found{};
  std::array<float, 32> weights{};
  for (std::size_t part = 0; part < 16; ++part) {
    const std::span<const float> some(x + 16 * part, 16);
    std::ranges::transform(some, weights.begin(), [](float v) { return std::abs(v); });
    found[part] = best_affine(some, weights, 3, {-0.5F, 0.1F, 15, true});
  }
  const AffineParts<16> parts(found, 15, block + 80);
  for (std::size_t part = 0; part < 16; ++part)
    merge(block[part], parts.scales[part] | parts.leasts[part] << 4);
  for (std::size_t i = 0; i < kLongBlock; ++i) {
    const std::size_t within = i % 128;
    merge(block[16 + i / 128 * 32 + within % 32], parts.quantised(x[i], i / 16, 3)
                                                      << (within / 32 * 2));
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
  [[nodiscard]] int quantised(float x, std::size_t part, int most) const {
    return read[part] == 0.0F ? 0 : level(x / read[part], -most, most - 1);
  }
};

template <std::size_t kParts>
std::array<float, kParts> best_scales(const float* x, int most) {
  std::array<float, kParts> scales{};
  constexpr std::size_t kSize = kLongBlock / kParts;
  for (std::size_t part = 0; part < kParts; ++part)
    scales[part] = best_scale({x + kSize * part, kSize}, most);
  return scales;
}

void encode_q3_k(const float* x, std::byte* block) {
  const ScaledParts<16> parts(best_scales<16>(x, 4), 32, block + 108);
  for (std::size_t part = 0; part < 16; ++part) {
    const int scale = parts.scales[part] + 32;
    merge(block[96 + part % 8], (scale & 15) << (part < 8 ? 0 : 4));
    merge(block[104 + part % 4], (scale >> 4) << (2 * (part / 4)));
  }
  for (std::size_t i = 0; i < kLongBlock; ++i) {
    const int q = parts.quantised(x[i], i / 16, 4) + 4;
    const std::size_t within = i % 128;
    merge(block[32 + i / 128 * 32 + within % 32], (q & 3) << (within / 32 * 2));
    merge(block[i % 32], (q >> 2) << (i / 32));
  }
}

void encode_q6_k(const float* x, std::byte* block) {
  const ScaledParts<16> parts(best_scales<16>(x, 32), 128, block + 208);
  for (std::size_t part = 0; part < 16; ++part)
    block[192 + part] = static_cast<std::byte>(static_cast<std::int8_t>(parts.scales[part]));
  for (std::size_t i = 0; i < kLongBlock; ++i) {
    const int q = parts.quantised(x[i], i / 16, 32) + 32;
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
