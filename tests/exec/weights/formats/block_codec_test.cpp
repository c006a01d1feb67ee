// The codecs against slow references that share no code with them: what the formats mean, from
// their definitions in double precision.

#include "exec/weights/formats/block_codec.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

namespace tandem::exec::block_codec_test {
namespace {

using model::WeightFormat;

double half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  return exponent == 0 ? sign * std::ldexp(fraction, -24)
                       : sign * std::ldexp(1024 + fraction, exponent - 25);
}

// The nearest half, ties to even, by trying all: nothing beyond 65504 + half a step.
std::uint16_t nearest_half(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double wanted = std::abs(value);
  if (wanted >= 65520.0) return sign | 0x7c00;
  int low = 0;
  int high = 0x7bff;
  while (low < high) {  // the largest half that is at most `wanted`
    const int middle = (low + high + 1) / 2;
    if (half(static_cast<std::uint16_t>(middle)) <= wanted) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const double below = wanted - half(static_cast<std::uint16_t>(low));
  const double above =
      (low == 0x7bff ? 65536.0 : half(static_cast<std::uint16_t>(low + 1))) - wanted;
  const bool up = above < below || (above == below && low % 2 == 1);
  return static_cast<std::uint16_t>(sign | (low + (up ? 1 : 0)));
}

std::uint16_t scale_of(const std::byte* block) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(block[0]) |
                                    (std::to_integer<unsigned>(block[1]) << 8U));
}

// What a block of 32 means.
std::vector<float> meaning(WeightFormat format, const std::byte* block) {
  const double scale = half(scale_of(block));
  std::vector<float> out(32);
  for (std::size_t i = 0; i < 32; ++i) {
    int q = 0;
    if (format == WeightFormat::q8_0) {
      q = std::to_integer<int>(block[2 + i]);
      if (q > 127) q -= 256;
    } else {
      const int both = std::to_integer<int>(block[2 + i % 16]);
      q = (i < 16 ? both % 16 : both / 16) - 8;
    }
    out[i] = static_cast<float>(scale * q);  // exact in double, rounded once
  }
  return out;
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

constexpr WeightFormat kBlocks[] = {WeightFormat::q8_0, WeightFormat::q4_0};

std::size_t bytes_of(WeightFormat format, std::size_t numbers) {
  return static_cast<std::size_t>(model::row_bytes(format, static_cast<std::int64_t>(numbers)));
}

TEST_CASE("exec/block codec: random bytes mean what the format says, any scale included") {
  std::mt19937 engine(5);
  for (const WeightFormat format : kBlocks) {
    CAPTURE(to_string(format));
    const std::size_t size = bytes_of(format, 32);
    std::vector<std::byte> block(size);
    std::vector<float> out(32);
    int wrong = 0;
    for (int scale = 0; scale < 65536; ++scale) {  // all of them: denormal, infinite, NaN
      for (std::byte& byte : block) byte = static_cast<std::byte>(engine());
      block[0] = static_cast<std::byte>(scale & 255);
      block[1] = static_cast<std::byte>(scale >> 8);
      decode(format, block, out);
      const std::vector<float> wanted = meaning(format, block.data());
      for (std::size_t i = 0; i < 32; ++i) wrong += same(out[i], wanted[i]) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("exec/block codec: encoding is ggml's: scale by the largest magnitude, then rounding") {
  std::mt19937 engine(6);
  std::normal_distribution<float> normal;
  for (const WeightFormat format : kBlocks) {
    CAPTURE(to_string(format));
    const std::size_t size = bytes_of(format, 32);
    int wrong = 0;
    double squares = 0.0;
    double errors = 0.0;
    for (int round = 0; round < 4000; ++round) {
      std::vector<float> x(32);
      const float magnitude = std::ldexp(1.0F, static_cast<int>(engine() % 40) - 30);
      for (float& v : x) v = magnitude * normal(engine);
      if (round % 7 == 0) x[engine() % 32] = 0.0F;
      if (round % 11 == 0) x[3] = -x[17];  // two of the largest magnitude, perhaps
      if (round == 1) std::fill(x.begin(), x.end(), 0.0F);
      std::vector<std::byte> block(size);
      encode(format, x, block);
      float extreme = 0.0F;
      for (const float v : x) {
        if (std::abs(v) > std::abs(extreme)) extreme = v;
      }
      const float scale =
          format == WeightFormat::q8_0 ? std::abs(extreme) / 127.0F : extreme / -8.0F;
      wrong += scale_of(block.data()) != nearest_half(static_cast<double>(scale));
      const float by = scale == 0.0F ? 0.0F : 1.0F / scale;
      for (std::size_t i = 0; i < 32; ++i) {
        volatile const float quotient = x[i] * by;  // rounded, whatever the compiler would fuse
        int q = 0;
        int stored = 0;
        if (format == WeightFormat::q8_0) {
          const double away = std::floor(std::abs(static_cast<double>(quotient)) + 0.5);
          q = static_cast<int>(quotient < 0.0F ? -away : away);
          stored = std::to_integer<int>(block[2 + i]);
          if (stored > 127) stored -= 256;
        } else {
          volatile const float shifted = quotient + 8.5F;
          q = std::min(15, static_cast<int>(std::floor(shifted)));
          const int both = std::to_integer<int>(block[2 + i % 16]);
          stored = i < 16 ? both % 16 : both / 16;
        }
        wrong += q != stored;
      }
      std::vector<float> back(32);
      decode(format, block, back);
      for (std::size_t i = 0; i < 32; ++i) {
        if (magnitude < 0x1p-10F) continue;  // scales below are denormal halves
        squares += std::pow(static_cast<double>(x[i] / magnitude), 2);
        errors += std::pow(static_cast<double>((back[i] - x[i]) / magnitude), 2);
      }
    }
    CHECK(wrong == 0);
    // On normal numbers: 0.0055 and 0.087 of their root mean square.
    CHECK(std::sqrt(errors / squares) < (format == WeightFormat::q8_0 ? 0.007 : 0.1));
  }
}

TEST_CASE("exec/block codec: numbers at the ends of the range, and sizes") {
  for (const WeightFormat format : kBlocks) {
    CAPTURE(to_string(format));
    std::vector<std::byte> block(bytes_of(format, 32));
    std::vector<float> back(32);
    const std::vector<float> denormal(32, 1e-42F);  // their reciprocal is infinite
    encode(format, denormal, block);
    decode(format, block, back);
    for (const float v : back) CHECK(v == 0.0F);
    const std::vector<float> huge(32, 3e38F);
    encode(format, huge, block);
    CHECK(std::isinf(half(scale_of(block.data()))));
    std::vector<float> odd(33);
    CHECK_THROWS_AS(encode(format, odd, block), std::logic_error);
    CHECK_THROWS_AS(decode(format, {block.data(), block.size() - 1}, back), std::logic_error);
  }
  std::vector<std::byte> halves(6);
  encode(WeightFormat::bf16, std::vector<float>{1.0F, -2.0F, 0.5F}, halves);
  std::vector<float> back(3);
  decode(WeightFormat::bf16, halves, back);
  CHECK(back == std::vector<float>{1.0F, -2.0F, 0.5F});
}

TEST_CASE("exec/weights: blocks of denormal numbers are ggml's, bit for bit") {
  // 1e-40 and 1e-42 / 8 have inverses beyond a float's numbers: a scale of -0, or 0 of negative
  // ones, and integers that are all 0. Zeros alone are the middle of the integers.
  const auto bytes_of = [](WeightFormat format, float value, float other) {
    std::vector<float> block(32, value);
    block[5] = other;
    std::vector<std::byte> stored(static_cast<std::size_t>(model::row_bytes(format, 32)));
    encode(format, block, stored);
    return stored;
  };
  const auto zeros_after = [](std::size_t size, int sign) {
    std::vector<std::byte> bytes(size, std::byte{0});
    bytes[1] = static_cast<std::byte>(sign);
    return bytes;
  };
  for (const auto& [format, size] :
       {std::pair{WeightFormat::q4_0, 18}, std::pair{WeightFormat::q5_0, 22}}) {
    CAPTURE(to_string(format));
    const auto bytes = static_cast<std::size_t>(size);
    CHECK(bytes_of(format, 1e-40F, 1e-40F) == zeros_after(bytes, 0x80));
    CHECK(bytes_of(format, -1e-42F, -1e-42F) == zeros_after(bytes, 0));
    CHECK(bytes_of(format, 1e-40F, -1e-41F) == zeros_after(bytes, 0x80));
    CHECK(bytes_of(format, 1e-40F, 0.0F) == zeros_after(bytes, 0x80));
    const std::vector<std::byte> none = bytes_of(format, 0.0F, 0.0F);
    CHECK(none[bytes - 1] == (format == WeightFormat::q4_0 ? std::byte{0x88} : std::byte{0}));
  }
}

}  // namespace
}  // namespace tandem::exec::block_codec_test
