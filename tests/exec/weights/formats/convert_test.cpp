#include "exec/weights/formats/convert.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

namespace tandem::exec::convert_test {
namespace {

using model::DType;

float widened(DType dtype, std::uint16_t bits) {
  float out = 0.0F;
  to_f32(dtype, std::as_bytes(std::span(&bits, 1)), {&out, 1});
  return out;
}

std::uint16_t narrowed(DType dtype, float value) {
  std::uint16_t bits = 0;
  from_f32(dtype, {&value, 1}, std::as_writable_bytes(std::span(&bits, 1)));
  return bits;
}

// What IEEE 754 says 16 bits mean, with `fraction_bits` of them the fraction.
double meaning(std::uint16_t bits, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >= 0x8000 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  const int hidden_bit = exponent == 0 ? 0 : 1 << fraction_bits;
  return sign * std::ldexp(fraction + hidden_bit, std::max(exponent, 1) - bias - fraction_bits);
}

TEST_CASE("exec/convert: all 65536 values of F16 and BF16 are what IEEE 754 says, and come back") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const int fraction_bits = dtype == DType::f16 ? 10 : 7;
    int wrong = 0;
    for (int i = 0; i < 65536; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const double expected = meaning(bits, fraction_bits);
      const float actual = widened(dtype, bits);
      if (std::isnan(expected)) {
        wrong += !std::isnan(actual);
        wrong += !std::isnan(widened(dtype, narrowed(dtype, actual)));
      } else {
        wrong += static_cast<double>(actual) != expected ||
                 std::signbit(actual) != std::signbit(expected);
        wrong += narrowed(dtype, actual) != bits;
      }
    }
    CAPTURE(fraction_bits);
    CHECK(wrong == 0);
  }
}

TEST_CASE("exec/convert: rounds to the nearest value, ties to even") {
  SUBCASE("F16: 1 + 2^-11 is half way and goes to 1; 1 + 3 * 2^-11 goes to 1 + 2^-9") {
    CHECK(narrowed(DType::f16, 1.0F + 0x1p-11F) == 0x3c00);
    CHECK(narrowed(DType::f16, std::nextafter(1.0F + 0x1p-11F, 2.0F)) == 0x3c01);
    CHECK(narrowed(DType::f16, 1.0F + 3 * 0x1p-11F) == 0x3c02);
  }
  SUBCASE("F16: 65519.996 is the largest that stays finite, 65520 is infinite") {
    CHECK(narrowed(DType::f16, std::nextafter(65520.0F, 0.0F)) == 0x7bff);
    CHECK(narrowed(DType::f16, 65520.0F) == 0x7c00);
    CHECK(narrowed(DType::f16, -1e30F) == 0xfc00);
  }
  SUBCASE("F16: 2^-25 is half of the smallest and goes to 0, anything more to 2^-24") {
    CHECK(narrowed(DType::f16, 0x1p-25F) == 0);
    CHECK(narrowed(DType::f16, std::nextafter(0x1p-25F, 1.0F)) == 1);
    CHECK(narrowed(DType::f16, -0x1.8p-24F) == 0x8002);
  }
  SUBCASE("BF16: 1 + 2^-8 is half way and goes to 1; 1 + 3 * 2^-8 goes to 1 + 2^-6") {
    CHECK(narrowed(DType::bf16, 1.0F + 0x1p-8F) == 0x3f80);
    CHECK(narrowed(DType::bf16, 1.0F + 3 * 0x1p-8F) == 0x3f82);
    CHECK(narrowed(DType::bf16, std::numeric_limits<float>::max()) == 0x7f80);
  }
}

TEST_CASE("exec/convert: sizes that do not match are the caller's error") {
  std::vector<std::byte> stored(6);
  std::vector<float> out(2);
  CHECK_THROWS_AS(to_f32(DType::f16, stored, out), std::logic_error);
  CHECK_THROWS_AS(from_f32(DType::f32, out, stored), std::logic_error);
}

}  // namespace
}  // namespace tandem::exec::convert_test
