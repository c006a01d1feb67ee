// Bytes of blocks by kinds of layers are those of each layer by itself.

#include "model/graph/block_bytes.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "tests/model/model_fixtures.hpp"

namespace tandem::model::block_bytes_test {
namespace {

void check_layers(const Transformer& t, const LayerRuns& layers, Range heads, Range columns) {
  const BlockBytes bytes(t, layers, heads, columns);
  std::int64_t total = 0;
  for (const std::int32_t layer : layers) {
    CAPTURE(layer);
    CHECK(bytes.attention(layer) == t.attention_bytes(layer, heads));
    CHECK(bytes.ffn(layer) == t.ffn_bytes(layer, columns));
    total += t.attention_bytes(layer, heads) + t.ffn_bytes(layer, columns);
  }
  CHECK(bytes.total() == total);
}

TEST_CASE("model/block bytes: layers in any formats, and of any shares, are each counted as is") {
  std::mt19937 random(7);
  const auto below = [&](std::int32_t most) {
    return std::uniform_int_distribution<std::int32_t>(0, most - 1)(random);
  };
  for (const std::string name : {"tinyllama-1.1b", "gpt2", "mixtral-8x7b"}) {
    CAPTURE(name);
    Transformer t = test::named_model(name);
    t.formats = WeightFormats(WeightFormat::q4_k);
    for (int i = 0; i < 20; ++i) {
      t.formats.set(WeightMatrix::value, below(static_cast<std::int32_t>(t.layers)),
                    WeightFormat::q6_k);
      t.formats.set(WeightMatrix::down, below(static_cast<std::int32_t>(t.layers)),
                    i % 2 == 0 ? WeightFormat::q6_k : WeightFormat::q8_0);
    }
    const auto heads = static_cast<std::int32_t>(t.heads);
    const auto columns = static_cast<std::int32_t>(t.intermediate);
    const LayerRuns all{0, static_cast<std::int32_t>(t.layers)};
    check_layers(t, all, {0, heads}, {0, columns});
    check_layers(t, all, {0, 0}, {256, columns});
    check_layers(t, {3, 8}, {1, heads / 2}, {0, 0});
  }
}

TEST_CASE("model/block bytes: layers without experts are another kind") {
  Transformer t = test::named_model("mixtral-8x7b");
  t.experts->dense = t.intermediate;
  t.experts->dense_layers.assign(static_cast<std::size_t>(t.layers), false);
  t.experts->dense_layers[0] = t.experts->dense_layers[5] = true;
  check_layers(t, {0, static_cast<std::int32_t>(t.layers)}, {0, static_cast<std::int32_t>(t.heads)},
               {0, static_cast<std::int32_t>(t.intermediate)});
}

}  // namespace
}  // namespace tandem::model::block_bytes_test
