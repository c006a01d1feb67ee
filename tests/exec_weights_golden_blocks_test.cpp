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
#include <vector>

#include "exec/weights/block_codec.hpp"
#include "source_tree.hpp"

namespace tandem::exec::exec_weights_golden_blocks_test {
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

}  // namespace tandem::exec::exec_weights_golden_blocks_test
