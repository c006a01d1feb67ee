#include "exec/kernels/integer_product.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "exec/weights/files/aligned_buffer.hpp"
#include "exec/weights/formats/block_codec.hpp"
#include "tests/exec/kernels/kernel_test_support.hpp"

namespace tandem::exec::integer_product_test {
namespace {

using model::WeightFormat;
using testing::random_floats;

struct Case {
  std::int64_t tokens, outputs, blocks;
};

constexpr Case kCases[] = {{1, 1, 1},    {1, 37, 3},   {2, 9, 2},   {3, 7, 5},    {4, 16, 8},
                           {5, 13, 3},   {6, 5, 6},    {7, 33, 64}, {8, 12, 7},   {9, 31, 4},
                           {16, 48, 9},  {21, 13, 3},  {33, 50, 2}, {70, 17, 12}, {5, 3, 1030},
                           {9, 2, 1500}, {35, 7, 410}, {200, 8, 33}};

std::vector<WeightFormat> integer_formats() {
  std::vector<WeightFormat> formats;
  for (const WeightFormat format : model::kWeightFormats) {
    if (model::multiplies_integers(format)) formats.push_back(format);
  }
  return formats;
}

// Inputs of a product, of all magnitudes and with blocks of zeros.
std::vector<float> inputs(const Case& c) {
  std::vector<float> x = random_floats(c.tokens * c.blocks * kInputBlock, 5);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto block = static_cast<int>(i) / 32;
    x[i] = block % 7 == 3 ? 0.0F : std::ldexp(x[i], (block * 5) % 23 - 12);
  }
  return x;
}

struct Quantised {
  Quantised(const IntegerKernels& kernels, const Case& c, const std::vector<float>& x)
      : memory(static_cast<std::size_t>(IntegerInputs::bytes(c.tokens, c.blocks))),
        at(IntegerInputs::at(memory.data(), c.tokens, c.blocks)) {
    std::fill_n(memory.data(), memory.size(), std::byte{0xa5});
    for (std::int64_t t = 0; t < c.tokens; ++t)
      kernels.quantise(x.data() + t * c.blocks * kInputBlock, c.blocks, at.token(t));
  }
  AlignedBuffer memory;
  IntegerInputs at;
};

std::vector<std::byte> weights(WeightFormat format, const Case& c) {
  const std::int64_t numbers = c.outputs * c.blocks * kInputBlock;
  std::vector<std::byte> stored(static_cast<std::size_t>(model::row_bytes(format, numbers)));
  encode(format, random_floats(numbers, 9), stored);
  return stored;
}

std::vector<float> multiplied(const IntegerKernels& kernels, WeightFormat format, const Case& c,
                              const IntegerInputs& x, const std::vector<std::byte>& w) {
  std::vector<float> y(static_cast<std::size_t>(c.tokens * c.outputs), NAN);
  const WeightProduct p{.w = w.data(),
                        .w_stride = model::row_bytes(format, c.blocks * kInputBlock),
                        .format = format,
                        .y = y.data(),
                        .y_stride = c.outputs,
                        .tokens = c.tokens,
                        .outputs = c.outputs};
  kernels.multiply({p, x, c.blocks});
  return y;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <class Body>
void for_all(const Body& body) {
  for (const WeightFormat format : integer_formats()) {
    CAPTURE(to_string(format));
    const std::int64_t whole = model::block_of(format).elements / kInputBlock;
    for (Case c : kCases) {
      c.blocks = (c.blocks + whole - 1) / whole * whole;
      CAPTURE(c.tokens);
      CAPTURE(c.outputs);
      CAPTURE(c.blocks);
      body(format, c);
    }
  }
}

}  // namespace

TEST_CASE("kernels/integer product: of plain code, float64 on the same inputs in 8 bits") {
  for_all([](WeightFormat format, const Case& c) {
    const Quantised x(plain_kernels(), c, inputs(c));
    const std::vector<std::byte> w = weights(format, c);
    const std::vector<float> got = multiplied(plain_kernels(), format, c, x.at, w);
    std::vector<float> numbers(static_cast<std::size_t>(c.outputs * c.blocks * kInputBlock));
    decode(format, w, numbers);
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      const IntegerInputs in = x.at.token(t);
      for (std::int64_t o = 0; o < c.outputs; ++o) {
        double sum = 0.0;
        double magnitude = 0.0;
        for (std::int64_t k = 0; k < c.blocks * kInputBlock; ++k) {
          const double one =
              static_cast<double>(
                  numbers[static_cast<std::size_t>(o * c.blocks * kInputBlock + k)]) *
              in.q[k] * static_cast<double>(in.scales[k / kInputBlock]);
          sum += one;
          magnitude += std::abs(one);
        }
        const double error =
            std::abs(static_cast<double>(got[static_cast<std::size_t>(t * c.outputs + o)]) - sum);
        CHECK(error <= 0x1p-23 * magnitude * (2.0 + static_cast<double>(c.blocks) / kChains));
      }
    }
  });
}

TEST_CASE("kernels/integer product: every instruction set gives the bits of plain code") {
  for_all([](WeightFormat format, const Case& c) {
    const std::vector<float> x = inputs(c);
    const Quantised plain(plain_kernels(), c, x);
    const std::vector<std::byte> w = weights(format, c);
    const std::vector<float> wanted = multiplied(plain_kernels(), format, c, plain.at, w);
    for (const IntegerKernels& kernels : integer_kernels()) {
      CAPTURE(kernels.name);
      const Quantised own(kernels, c, x);
      CHECK(std::memcmp(own.memory.data(), plain.memory.data(), own.memory.size()) == 0);
      CHECK(same_bits(multiplied(kernels, format, c, own.at, w), wanted));
    }
  });
}

TEST_CASE("kernels/integer product: a token's results are the same bits beside any others") {
  for_all([](WeightFormat format, const Case& c) {
    const std::vector<float> x = inputs(c);
    const std::vector<std::byte> w = weights(format, c);
    for (const IntegerKernels& kernels : integer_kernels()) {
      CAPTURE(kernels.name);
      const Quantised own(kernels, c, x);
      const std::vector<float> all = multiplied(kernels, format, c, own.at, w);
      for (const std::int64_t t : {std::int64_t{0}, c.tokens - 1}) {
        const std::vector<float> one =
            multiplied(kernels, format, {1, c.outputs, c.blocks}, own.at.token(t), w);
        CHECK(std::memcmp(one.data(), all.data() + t * c.outputs, one.size() * sizeof(float)) == 0);
      }
    }
  });
}

// Blocks of any bytes, all of one value among them, whose scales are 1.
std::vector<std::byte> extreme_weights(WeightFormat format, const Case& c, int bytes) {
  const model::FormatBlock size = model::block_of(format);
  std::vector<std::byte> stored(
      static_cast<std::size_t>(model::row_bytes(format, c.outputs * c.blocks * kInputBlock)));
  std::mt19937 random(4);
  for (std::byte& one : stored)
    one = static_cast<std::byte>(bytes < 0 ? static_cast<int>(random() & 255U) : bytes);
  const auto set_one = [](std::byte* half) {
    half[0] = std::byte{0x00};
    half[1] = std::byte{0x3c};
  };
  for (std::size_t at = 0; at < stored.size(); at += static_cast<std::size_t>(size.bytes)) {
    set_one(stored.data() + at + (format == WeightFormat::q6_k ? 208 : 0));
    if (has_leasts(format)) set_one(stored.data() + at + 2);
  }
  return stored;
}

TEST_CASE("kernels/integer product: sums of the largest integers do not overflow") {
  for (const WeightFormat format : integer_formats()) {
    CAPTURE(to_string(format));
    for (const std::int64_t tokens : {1, 3, 6, 16, 24}) {
      const Case c{tokens, 7, 16};
      for (const int bytes : {0xff, 0x80, 0x7f, 0x00, 0xf0, -1}) {
        CAPTURE(bytes);
        const std::vector<std::byte> w = extreme_weights(format, c, bytes);
        for (const int signs : {0, 1, 2}) {
          std::vector<float> x(static_cast<std::size_t>(c.tokens * c.blocks * kInputBlock));
          for (std::size_t i = 0; i < x.size(); ++i)
            x[i] = signs == 0 || (signs == 2 && i % 3 == 0) ? 1.0F : -1.0F;
          const Quantised plain(plain_kernels(), c, x);
          const std::vector<float> wanted = multiplied(plain_kernels(), format, c, plain.at, w);
          for (const IntegerKernels& kernels : integer_kernels()) {
            CAPTURE(kernels.name);
            CHECK(same_bits(multiplied(kernels, format, c, plain.at, w), wanted));
          }
        }
      }
    }
  }
}

// .ci/arm64 names the processor that it has QEMU emulate.
TEST_CASE("kernels/integer product: Arm's dot products are taken where the processor has them") {
  const char* const named = std::getenv("QEMU_CPU");
  const std::string processor = named == nullptr ? "" : named;
#if defined(__aarch64__)
  if (processor == "cortex-a72") CHECK(integer_kernels().front().name == "plain");
  if (processor == "cortex-a76" || processor == "max")
    CHECK(integer_kernels().front().name == "sdot");
#else
  CHECK(sdot_kernels() == nullptr);
#endif
}

TEST_CASE("kernels/integer product: inputs to the nearest of 255 levels of their block") {
  const Case c{1, 1, 6};
  std::vector<float> x(static_cast<std::size_t>(c.blocks * kInputBlock), 0.0F);
  const auto block = [&](std::int64_t b) {
    return std::span(x).subspan(static_cast<std::size_t>(b * kInputBlock), 32);
  };
  std::ranges::copy(random_floats(32, 3), block(0).begin());
  block(1)[4] = std::numeric_limits<float>::infinity();
  block(2)[31] = std::numeric_limits<float>::quiet_NaN();
  block(3)[0] = 0x1p-101F;  // nothing is left of it
  block(4)[0] = 127.0F;
  block(4)[1] = 2.5F;  // to even
  block(4)[2] = -3.5F;
  for (const IntegerKernels& kernels : integer_kernels()) {
    CAPTURE(kernels.name);
    const Quantised own(kernels, c, x);
    for (std::size_t i = 0; i < 32; ++i)
      CHECK(std::abs(own.at.scales[0] * own.at.q[i] - x[i]) <= 0.501F * own.at.scales[0]);
    CHECK(std::isnan(own.at.scales[1]));
    CHECK(std::isnan(own.at.scales[2]));
    CHECK(own.at.scales[3] == 0.0F);
    CHECK(own.at.scales[4] == 1.0F);
    CHECK(static_cast<int>(own.at.q[4 * 32 + 1]) == 2);
    CHECK(static_cast<int>(own.at.q[4 * 32 + 2]) == -4);
    CHECK(own.at.sum(4) == 127 + 2 - 4);
    CHECK(own.at.scales[5] == 0.0F);
    CHECK(own.at.scales[6] == 0.0F);  // padding
  }
}

}  // namespace tandem::exec::integer_product_test
