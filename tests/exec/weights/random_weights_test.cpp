#include "exec/weights/random_weights.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "exec/weights/shard.hpp"
#include "exec/weights/source/safetensors.hpp"
#include "model/base/digest.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/block_support.hpp"

namespace tandem::exec::random_weights_test {
namespace {

using model::DType;
using testing::has;
using testing::names_in;
using testing::read_all;
using testing::small_llama;
using testing::TemporaryFolder;

TEST_CASE("exec/random weights: values are the same wherever a piece begins") {
  std::vector<float> whole(1000);
  random_values(3, "x", 0, 1.0F, 0.5F, whole);
  for (const std::size_t first : {1U, 7U, 999U}) {
    std::vector<float> part(1000 - first);
    random_values(3, "x", first, 1.0F, 0.5F, part);
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(first)));
  }
}

TEST_CASE("exec/random weights: seeds and names give unrelated values") {
  constexpr std::size_t kCount = 100000;
  const auto values = [](std::uint64_t seed, const std::string& name) {
    std::vector<float> out(kCount);
    random_values(seed, name, 0, 0.0F, 1.0F, out);
    return out;
  };
  const auto a = values(1, "x");
  for (const auto& b : {values(2, "x"), values(1, "y"), values(1, "xx"), values(0, "x")}) {
    double product = 0.0;
    for (std::size_t i = 0; i < kCount; ++i) {
      product += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    // Correlation of independent values: deviation 1 / sqrt(n); 5 deviations.
    CHECK(std::abs(product / kCount) < 5.0 / std::sqrt(double{kCount}));
  }
}

TEST_CASE("exec/random weights: moments are those of four uniforms") {
  constexpr std::size_t kCount = 1000000;
  std::vector<float> values(kCount);
  random_values(11, "x", 0, 0.0F, 1.0F, values);
  double mean = 0.0;
  double square = 0.0;
  double fourth = 0.0;
  float largest = 0.0F;
  for (const float v : values) {
    const double x = static_cast<double>(v);
    mean += x / kCount;
    square += x * x / kCount;
    fourth += x * x * x * x / kCount;
    largest = std::max(largest, std::abs(v));
  }
  SUBCASE("mean 0 and variance 1 within 5 deviations of their estimates") {
    CHECK(std::abs(mean) < 5.0 / 1000.0);
    CHECK(std::abs(square - 1.0) < 5.0 * std::sqrt(1.7) / 1000.0);  // fourth moment less 1
  }
  SUBCASE("fourth moment 3 - 1.2 / 4 = 2.7; bound 2 sqrt 3 = 3.4641") {
    CHECK(fourth == doctest::Approx(2.7).epsilon(0.01));
    CHECK(largest < 3.4642F);
  }
}

TEST_CASE("exec/random weights: golden values, equal on every machine") {
  // From an independent implementation in Python.
  std::vector<float> values(4);
  random_values(42, "model.norm.weight", 0, 1.0F, 0.1F, values);
  CHECK(model::sha256_hex(std::as_bytes(std::span(values))) ==
        "07f6209ac90b689d2d79ddd0ca090732ad654468241c10188e0c2db818632909");
}

TEST_CASE("exec/random weights: golden files, equal on every machine") {
  const TemporaryFolder folder;
  for (const auto& [dtype, golden] :
       {std::pair<DType, std::string>{
            DType::f32, "72d314256e5b930f592f8d9f79b35263b261229e917b254af8927892ed4739b9"},
        {DType::f16, "f916ee0a0d524a8d960285e29a79172ec9c3017589bded21c871da442fc8b6c9"},
        {DType::bf16, "98cdc4b5f87e3c624440e220e5a7b3908ba67faa606996eb8a9f6eefa2d022b7"}}) {
    write_random_weights(small_llama(), 42, dtype, folder.path());
    CHECK(model::sha256_hex(read_all(folder.path() / "model.safetensors")) == golden);
  }
}

TEST_CASE("exec/random weights: config.json gives the geometry back") {
  const TemporaryFolder folder;
  model::Transformer t = small_llama();
  t.rope_scaling = model::RopeScaling{};
  t.rope_scaling->factor = 4.0;
  write_random_weights(t, 1, DType::f32, folder.path());
  CHECK(model::parse_config_json(read_all(folder.path() / "config.json"),
                                 (folder.path() / "small").string()) == t);
}

TEST_CASE("exec/random weights: a small limit splits into files with an index, same values") {
  const model::Transformer t = small_llama();
  const TemporaryFolder one;
  const TemporaryFolder many;
  write_random_weights(t, 5, DType::f32, one.path());
  write_random_weights(t, 5, DType::f32, many.path(), 40000);
  CHECK(has(read_all(many.path() / "model.safetensors.index.json"), "model-00001-of-0000"));
  CHECK(names_in(one.path()).size() == 2);
  CHECK(names_in(many.path()).size() > 4);
  const auto share = testing::whole_share(t);
  CHECK(testing::contents_of(Shard::slice(one.path(), t, share)) ==
        testing::contents_of(Shard::slice(many.path(), t, share)));
  for (const std::string& name : names_in(many.path())) {
    if (!name.ends_with(".safetensors")) continue;
    // One tensor may exceed the limit alone; two together never do.
    const auto size = std::filesystem::file_size(many.path() / name);
    const auto tensors = parse_safetensors_header(
        [&] {
          const std::string text = read_all(many.path() / name);
          std::uint64_t length = 0;
          std::memcpy(&length, text.data(), sizeof length);
          return text.substr(8, length);
        }(),
        size, name);
    std::uint64_t data = 0;
    for (const auto& [tensor, stored] : tensors) data += stored.bytes;
    CHECK((data <= 40000 || tensors.size() == 1));
  }
}

TEST_CASE("exec/random weights: weights of the other form do not shadow new ones") {
  const model::Transformer t = small_llama();
  const auto share = testing::whole_share(t);
  const TemporaryFolder folder;
  write_random_weights(t, 5, DType::f32, folder.path());
  write_random_weights(t, 6, DType::f32, folder.path(), 40000);
  const std::string split = testing::contents_of(Shard::slice(folder.path(), t, share));
  write_random_weights(t, 6, DType::f32, folder.path());
  CHECK(testing::contents_of(Shard::slice(folder.path(), t, share)) == split);
  CHECK(!std::filesystem::exists(folder.path() / "model.safetensors.index.json"));
}

}  // namespace
}  // namespace tandem::exec::random_weights_test
