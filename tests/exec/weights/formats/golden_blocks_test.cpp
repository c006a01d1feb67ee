// The codecs against llama.cpp: files that tests/llama/make_goldens.py wrote from its functions.

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/weights/formats/block_codec.hpp"
#include "exec/weights/random_weights.hpp"
#include "model/base/digest.hpp"
#include "tests/exec/kernels/kernel_test_support.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::exec::golden_blocks_test {
namespace {

using model::WeightFormat;

std::vector<std::byte> golden(const std::string& name) {
  const std::filesystem::path path = testing::in_sources("tests/data/golden/blocks") / name;
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file, path.string());
  std::vector<std::byte> bytes(std::filesystem::file_size(path));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  REQUIRE(file);
  return bytes;
}

std::vector<float> floats_of(std::span<const std::byte> bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

bool is_of_blocks(WeightFormat format) { return model::block_of(format).elements > 1; }

// sqrt(sum of (decoded - x)^2 / sum of x^2) of normal numbers.
double relative_error(WeightFormat format, float deviation) {
  std::mt19937 engine(11);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> x(std::size_t{256} * 1024);
  for (float& v : x) v = normal(engine);
  std::vector<std::byte> stored(
      static_cast<std::size_t>(model::row_bytes(format, static_cast<std::int64_t>(x.size()))));
  encode(format, x, stored);
  std::vector<float> back(x.size());
  decode(format, stored, back);
  double errors = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = static_cast<double>(back[i]) - static_cast<double>(x[i]);
    errors += error * error;
    squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return std::sqrt(errors / squares);
}

// Blocks of numbers of many kinds, the same on every machine.
std::vector<float> numbers_of_every_kind() {
  constexpr std::size_t kBlock = 256;
  constexpr std::size_t kBlocks = 512;
  std::vector<float> x(kBlock * kBlocks);
  random_values(7, "numbers", 0, 0.0F, 0.02F, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t kind = i / kBlock % 12;
    float& v = x[i];
    if (kind == 1) v = std::abs(v);
    if (kind == 2) v = -std::abs(v);
    if (kind == 3) v = 0.0F;
    if (kind == 4 && i % 4 != 1) v = 0.0F;
    if (kind == 5) v *= 0x1p-120F;  // subnormal
    if (kind == 6) v *= 0x1p20F;
    if (kind == 7) v = std::ldexp(v, static_cast<int>(i * 7 % 60) - 40);
    if (kind == 8) v = 0.5F;
    if (kind == 9) v = static_cast<float>(i * i % 5) - 2.0F;
    if (kind == 10 && i / 16 % 3 != 0) v = -0.0F;
    if (kind == 11) v *= 0x1p-43F;  // about the smallest that is kept
  }
  return x;
}

}  // namespace

TEST_CASE("exec/block codec: random blocks decode to llama.cpp's numbers, bit for bit") {
  for (const WeightFormat format : model::kWeightFormats) {
    if (!is_of_blocks(format)) continue;
    CAPTURE(to_string(format));
    constexpr std::size_t kNumbers = 4096;
    const std::vector<std::byte> file = golden(std::string(to_string(format)) + ".bin");
    const auto size = static_cast<std::size_t>(model::row_bytes(format, kNumbers));
    REQUIRE(file.size() == size + kNumbers * sizeof(float));
    const std::vector<float> wanted = floats_of(std::span(file).subspan(size));
    std::vector<float> got(kNumbers);
    decode(format, std::span(file).first(size), got);
    int wrong = 0;
    for (std::size_t i = 0; i < kNumbers; ++i) wrong += same(got[i], wanted[i]) ? 0 : 1;
    CHECK(wrong == 0);
  }
}

TEST_CASE("exec/block codec: q4_1, q5_0 and q5_1 encode to llama.cpp's blocks, bit for bit") {
  const std::vector<float> x = floats_of(golden("normal.f32"));
  for (const WeightFormat format : {WeightFormat::q4_1, WeightFormat::q5_0, WeightFormat::q5_1}) {
    CAPTURE(to_string(format));
    const std::vector<std::byte> wanted = golden(std::string(to_string(format)) + ".encoded.bin");
    std::vector<std::byte> got(wanted.size());
    encode(format, x, got);
    CHECK(got == wanted);
  }
}

// The digests are of a plain encoder, which searched one part after the other.
TEST_CASE("exec/block codec: every instruction set encodes long blocks to the same bytes") {
  const std::vector<float> x = numbers_of_every_kind();
  const std::pair<WeightFormat, std::string> cases[] = {
      {WeightFormat::q2_k, "c7b3bea01fc34563f0aa1dbc688426d7956b4813d492521220462306ec05db8a"},
      {WeightFormat::q3_k, "99d50ef2ff890c2d44dad65435f4a850daa2908f462759546b18cd6080673dcd"},
      {WeightFormat::q4_k, "58d1ef4eebd7a8252494529d4418e15754409503faa02e7c4963c6522a56f537"},
      {WeightFormat::q5_k, "098c32f7166fc0e899c38a9490dde92c33281e5e37fa53c0d9cfb997a2ffff0b"},
      {WeightFormat::q6_k, "ae942b0fb06740b101cd38d3d32fcaca5c8987f0a80e11aabcd6bba3e8bb2640"},
      {WeightFormat::iq4_xs, "0d7fb7e3cd09a348468c15c496b165ea85bd8a0a93cd3a75999dd7b1d30354c7"}};
  for (const auto& [format, digest] : cases) {
    CAPTURE(to_string(format));
    testing::for_every_target([&] {
      std::vector<std::byte> stored(
          static_cast<std::size_t>(model::row_bytes(format, static_cast<std::int64_t>(x.size()))));
      encode(format, x, stored);
      CHECK(model::sha256_hex(stored) == digest);
    });
  }
}

// llama.cpp's own are 0.0714, 0.0361 and 0.0178.
TEST_CASE("exec/block codec: K formats lose of normal numbers what llama.cpp's encoders lose") {
  const struct {
    WeightFormat format;
    double bound;
  } cases[] = {
      {WeightFormat::q4_k, 0.0714}, {WeightFormat::q5_k, 0.0361}, {WeightFormat::q6_k, 0.0178}};
  for (const auto& [format, bound] : cases) {
    CAPTURE(to_string(format));
    for (const float deviation : {1.0F, 0.02F})
      CHECK(relative_error(format, deviation) <= 1.01 * bound);
  }
}

TEST_CASE("exec/block codec: every format says numbers again, about, and its own exactly") {
  std::mt19937 engine(3);
  for (const WeightFormat format : model::kWeightFormats) {
    CAPTURE(to_string(format));
    CHECK(relative_error(format, 0.5F) < (format == WeightFormat::q2_k ? 0.4 : 0.2));
    for (const float same_for_all : {0.0F, -1.5F, 0.25F}) {
      std::vector<float> x(256, same_for_all);
      std::vector<std::byte> stored(static_cast<std::size_t>(model::row_bytes(format, 256)));
      encode(format, x, stored);
      std::vector<float> back(256);
      decode(format, stored, back);
      for (const float v : back) CHECK(v == doctest::Approx(same_for_all).epsilon(0.02));
    }
  }
}

}  // namespace tandem::exec::golden_blocks_test
