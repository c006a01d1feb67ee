// Rows of activations as they travel.

#include "exec/kernels/wire_row.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "exec/weights/formats/convert.hpp"

namespace tandem::exec::wire_row_test {
namespace {

using model::WireFormat;

std::vector<float> normal_row(std::size_t size, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> row(size);
  for (float& value : row) value = normal(random);
  return row;
}

std::vector<std::byte> room(WireFormat format, std::size_t size) {
  return std::vector<std::byte>(
      static_cast<std::size_t>(model::wire_row_bytes(format, static_cast<std::int64_t>(size))));
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_CASE("exec/wire row: sender and receiver go on with equal bits, and again with the same") {
  for (const WireFormat format : model::kWireFormats) {
    for (const std::size_t size : {1U, 7U, 31U, 32U, 33U, 96U, 100U}) {
      for (const float scale : {1e-12F, 1e-3F, 1.0F, 300.0F}) {
        CAPTURE(to_string(format));
        CAPTURE(size);
        CAPTURE(scale);
        const std::vector<float> before = normal_row(size, scale, 3);
        std::vector<float> row = before;
        std::vector<std::byte> sent = room(format, size);
        REQUIRE(encode_row(format, row, sent));
        std::vector<float> received(size);
        decode_row(format, sent, received);
        CHECK(same_bits(row, received));
        std::vector<std::byte> again = room(format, size);
        REQUIRE(encode_row(format, received, again));
        CHECK(again == sent);
        CHECK(same_bits(row, received));
        if (format == WireFormat::f32) CHECK(same_bits(row, before));
      }
    }
  }
}

TEST_CASE("exec/wire row: f16 and bf16 are the nearest, q8_0 within half a step of its block") {
  const std::vector<float> before = normal_row(100, 2.0F, 5);
  for (const auto& [wire, stored] : {std::pair{WireFormat::f16, model::DType::f16},
                                     std::pair{WireFormat::bf16, model::DType::bf16}}) {
    std::vector<std::byte> expected(200);
    from_f32(stored, before, expected);
    std::vector<float> row = before;
    std::vector<std::byte> sent = room(wire, row.size());
    REQUIRE(encode_row(wire, row, sent));
    CHECK(sent == expected);
  }
  std::vector<float> row = before;
  std::vector<std::byte> sent = room(WireFormat::q8_0, row.size());
  CHECK(sent.size() == 3 * 34 + 6);
  REQUIRE(encode_row(WireFormat::q8_0, row, sent));
  for (std::size_t begin = 0; begin < before.size(); begin += 32) {
    const std::size_t end = std::min<std::size_t>(begin + 32, before.size());
    double most = 0.0;
    for (std::size_t i = begin; i < end; ++i)
      most = std::max(most, std::abs(static_cast<double>(before[i])));
    // Half a step, and what the scale's rounding to f16 (2^-11) does to 127 steps.
    const double bound = most / 127.0 * 0.5 * (1.0 + 1e-3) + most * std::exp2(-11);
    for (std::size_t i = begin; i < end; ++i)
      CHECK(std::abs(static_cast<double>(row[i]) - static_cast<double>(before[i])) <= bound);
  }
}

TEST_CASE("exec/wire row: q8_0 by hand, zeros and what is smaller than its least scale") {
  std::vector<float> row{127.0F, -127.0F, 0.5F, 1.5F, 2.5F, -0.4F};
  std::vector<std::byte> sent = room(WireFormat::q8_0, row.size());
  REQUIRE(encode_row(WireFormat::q8_0, row, sent));
  // The scale is 1, and halves go to the even neighbour.
  CHECK(row == std::vector<float>{127.0F, -127.0F, 0.0F, 2.0F, 2.0F, 0.0F});
  std::vector<float> none(40, 0.0F);
  none[3] = 1e-42F;
  sent = room(WireFormat::q8_0, none.size());
  REQUIRE(encode_row(WireFormat::q8_0, none, sent));
  CHECK(none == std::vector<float>(40, 0.0F));
}

TEST_CASE("exec/wire row: what is not finite, or too large for the format, is refused") {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto fits = [](WireFormat format, float value) {
    std::vector<float> row(33, 1.0F);
    row[32] = value;
    std::vector<std::byte> sent = room(format, row.size());
    return encode_row(format, row, sent);
  };
  for (const WireFormat format : {WireFormat::f16, WireFormat::bf16, WireFormat::q8_0}) {
    CHECK_FALSE(fits(format, infinity));
    CHECK_FALSE(fits(format, nan));
    CHECK(fits(format, 65504.0F));
  }
  CHECK(fits(WireFormat::f32, infinity));
  CHECK_FALSE(fits(WireFormat::f16, 66000.0F));
  CHECK(fits(WireFormat::bf16, 1e38F));
  CHECK(fits(WireFormat::q8_0, 8.3e6F));
  CHECK_FALSE(fits(WireFormat::q8_0, 8.4e6F));
}

}  // namespace
}  // namespace tandem::exec::wire_row_test
