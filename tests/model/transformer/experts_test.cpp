// Models with experts and latent attention: their parameters, caches and distinct experts.

#include "model/transformer/experts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "model/graph/memory.hpp"
#include "model/transformer/format_choice.hpp"
#include "tests/model/model_fixtures.hpp"

namespace tandem::model::experts_test {
namespace {

struct Row {
  const char* name;
  std::int64_t parameters;         // of the published model's text part; 0: as `billions`
  double billions;                 // as published
  double active;                   // as published, in billions
  double tolerance = 0.02;         // of the last two
  bool without_embedding = false;  // of the published active parameters
};

// Parameters: counts of the published checkpoints, and what model cards print. DeepSeek's 671B is
// without the layer that predicts a second token. Published counts of active parameters include
// both ends, but gpt-oss's (OpenAI 2025, table 1) excludes the embedding.
constexpr Row kTable[] = {
    {"mixtral-8x7b", 46702792704, 46.7, 12.9},
    {"mixtral-8x22b", 140620634112, 140.6, 39.1},
    {"qwen3-30b-a3b", 30532122624, 30.5, 3.3},
    {"qwen3-235b-a22b", 235093634560, 235.1, 22.2},
    {"qwen3-coder-480b-a35b", 480154875392, 480.2, 35.5},
    {"gpt-oss-20b", 20914757184, 20.91, 3.61, 0.01, true},
    {"gpt-oss-120b", 116829156672, 116.83, 5.13, 0.01, true},
    {"deepseek-v2-lite", 15706484224, 15.7, 2.7, 0.03},
    {"deepseek-v3", 671026419200, 671.0, 37.5},
    {"kimi-k2", 0, 1026.0, 32.9},
    {"glm-4.5-air", 0, 106.9, 12.9, 0.04},
    {"glm-4.6", 0, 352.8, 33.6, 0.04},
    {"minimax-m2", 0, 228.7, 11.0, 0.04},
    {"llama-4-scout", 0, 107.8, 17.2, 0.03},
    {"llama-4-maverick", 0, 400.7, 17.2, 0.03},
};

// Draws the experts of `rows` rows and counts the distinct ones.
int drawn_distinct(const Experts& e, int rows, std::mt19937_64& random) {
  std::vector<int> experts(static_cast<std::size_t>(e.count));
  std::iota(experts.begin(), experts.end(), 0);
  std::set<int> used;
  for (int row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < e.chosen; ++i) {  // a partial shuffle
      std::uniform_int_distribution<std::int64_t> place(i, e.count - 1);
      std::swap(experts[static_cast<std::size_t>(i)],
                experts[static_cast<std::size_t>(place(random))]);
      used.insert(experts[static_cast<std::size_t>(i)]);
    }
  }
  return static_cast<int>(used.size());
}

}  // namespace

TEST_CASE("model/experts: total and active parameters are those of the publications") {
  for (const Row& row : kTable) {
    CAPTURE(row.name);
    const Transformer t = test::named_model(row.name);
    REQUIRE(t.experts.has_value());
    if (row.parameters > 0) CHECK(t.parameters() == row.parameters);
    CHECK(static_cast<double>(t.parameters()) * 1e-9 ==
          doctest::Approx(row.billions).epsilon(row.tolerance));
    const std::int64_t active =
        t.active_parameters() - (row.without_embedding ? t.vocab * t.hidden : 0);
    CHECK(static_cast<double>(active) * 1e-9 == doctest::Approx(row.active).epsilon(row.tolerance));
  }
}

TEST_CASE("model/experts: a dense model's active parameters are all") {
  const Transformer t = test::named_model("llama-3.2-3b");
  CHECK(t.active_parameters() == t.parameters());
}

TEST_CASE("model/experts: expected distinct experts, E (1 - (1 - k/E)^n)") {
  const Experts e{.count = 8, .chosen = 2};
  SUBCASE("one row uses k: 2, without deviation") {
    CHECK(e.expected_distinct(1.0) == 2.0);
    CHECK(e.distinct_deviation(1.0) == doctest::Approx(0.0).epsilon(1e-6));
  }
  SUBCASE("two rows: 8 (1 - (6/8)^2) = 3.5") {
    CHECK(e.expected_distinct(2.0) == doctest::Approx(3.5).epsilon(1e-12));
  }
  SUBCASE("all experts chosen: all, whatever the rows") {
    const Experts all{.count = 8, .chosen = 8};
    for (const double rows : {1.0, 2.0, 100.0}) CHECK(all.expected_distinct(rows) == 8.0);
  }
  SUBCASE("no row uses none") { CHECK(e.expected_distinct(0.0) == 0.0); }
}

TEST_CASE("model/experts: mean and deviation agree with 20,000 drawn steps") {
  std::mt19937_64 random(84);
  for (const Experts& e : {Experts{.count = 8, .chosen = 2}, Experts{.count = 32, .chosen = 4},
                           Experts{.count = 128, .chosen = 8}, Experts{.count = 16, .chosen = 1}}) {
    for (const int rows : {1, 2, 5, 20}) {
      CAPTURE(e.count);
      CAPTURE(rows);
      constexpr int kDraws = 20000;
      double sum = 0.0;
      double squares = 0.0;
      for (int draw = 0; draw < kDraws; ++draw) {
        const double distinct = drawn_distinct(e, rows, random);
        CHECK(distinct >= static_cast<double>(e.chosen));
        CHECK(distinct <= static_cast<double>(std::min<std::int64_t>(e.count, rows * e.chosen)));
        sum += distinct;
        squares += distinct * distinct;
      }
      const double mean = sum / kDraws;
      const double deviation = std::sqrt(std::max(0.0, squares / kDraws - mean * mean));
      // Five standard errors of the mean.
      const double error = 5.0 * e.distinct_deviation(rows) / std::sqrt(1.0 * kDraws) + 1e-9;
      CHECK(std::abs(mean - e.expected_distinct(rows)) < error);
      CHECK(std::abs(deviation - e.distinct_deviation(rows)) <
            0.05 * e.distinct_deviation(rows) + 1e-6);
    }
  }
}

TEST_CASE("model/experts: distinct experts grow with the rows, from k to E") {
  const Experts e{.count = 256, .chosen = 8};
  double before = 0.0;
  for (int rows = 1; rows < 4096; rows *= 2) {
    const double now = e.expected_distinct(rows);
    CHECK(now >= before);
    CHECK(now >= 8.0);
    CHECK(now <= std::min(256.0, 8.0 * rows));
    before = now;
  }
  CHECK(before == doctest::Approx(256.0));
}

TEST_CASE("model/experts: shares cover every FFN once, whatever its width") {
  for (const char* const name : {"deepseek-v2-lite", "deepseek-v3", "glm-4.5-air", "mixtral-8x7b",
                                 "llama-4-maverick", "gpt-oss-20b"}) {
    CAPTURE(name);
    const Transformer t = test::named_model(name);
    const auto all = static_cast<std::int32_t>(t.intermediate);
    for (const std::int32_t cut : {1, 7, all / 3, all / 2, all - 1}) {
      CAPTURE(cut);
      for (std::int32_t layer = 0; layer < t.layers; ++layer) {
        const auto first = t.ffn_columns(layer, {0, cut});
        const auto second = t.ffn_columns(layer, {cut, all});
        const auto whole = t.ffn_columns(layer, {0, all});
        CHECK(first.routed + second.routed == whole.routed);
        CHECK(first.common + second.common == whole.common);
        CHECK(whole.routed == (t.experts->in(layer) ? t.intermediate : 0));
        CHECK(whole.common == (t.experts->in(layer) ? t.experts->shared : t.experts->dense));
        // Both devices hold the norm and the router.
        const std::int64_t twice =
            t.hidden + (t.experts->in(layer) ? t.experts->router_parameters(t.hidden) : 0);
        CHECK(t.ffn_parameters({0, cut}, layer) + t.ffn_parameters({cut, all}, layer) - twice ==
              t.ffn_parameters({0, all}, layer));
      }
    }
  }
}

TEST_CASE("model/experts: bytes in f32 are four a parameter, and in f16 two beside what is f32") {
  for (const char* const name : {"mixtral-8x7b", "deepseek-v3", "gpt-oss-20b", "glm-5"}) {
    CAPTURE(name);
    Transformer t = test::named_model(name);
    for (std::int32_t layer = 0; layer < t.layers; ++layer) {
      CHECK(t.ffn_bytes(layer, test::all_columns(t)) ==
            4 * t.ffn_parameters(test::all_columns(t), layer));
      CHECK(t.attention_bytes(layer, test::all_heads(t)) ==
            4 * t.attention_parameters(test::all_heads(t), layer));
    }
    t.formats = WeightFormats(WeightFormat::f16);
    t.validate();
    CHECK(t.ffn_bytes(0, test::all_columns(t)) < 4 * t.ffn_parameters(test::all_columns(t), 0));
  }
}

TEST_CASE("model/latent attention: the cache keeps rank + rotated numbers a token and layer") {
  // DeepSeek-AI 2024, section 2.1.4: (d_c + d_h^R) l = (512 + 64) 61 numbers.
  Transformer t = test::named_model("deepseek-v3");
  t.cache = CacheFormat::f16;
  const Share whole{.layers = Range{0, 61}, .heads = {0, 128}, .columns = test::all_columns(t)};
  CHECK(cache_block_bytes(t, whole) == 2 * (512 + 64) * 61 * kCacheBlock);
  SUBCASE("with some heads it keeps all of it, without heads nothing") {
    Share some = whole;
    some.heads = {100, 101};
    CHECK(cache_block_bytes(t, some) == cache_block_bytes(t, whole));
    some.heads = {};
    CHECK(cache_block_bytes(t, some) == 0);
  }
  SUBCASE("in q8_0 it is whole blocks") {
    t.cache = CacheFormat::q8_0;
    t.validate();
    CHECK(cache_block_bytes(t, whole) == (512 + 64) / 32 * 34 * 61 * kCacheBlock);
    t.latent->rotated = 72;
    t.head_dim = t.latent->plain + t.latent->rotated;
    CHECK(test::error_of([&] { t.validate(); }).find("the latent row is 584") != std::string::npos);
  }
  SUBCASE("an indexer keeps one key more") {
    Transformer sparse = test::named_model("deepseek-v3.2");
    sparse.cache = CacheFormat::f16;
    CHECK(cache_block_bytes(sparse, whole) == 2 * (512 + 64 + 128) * 61 * kCacheBlock);
  }
}

TEST_CASE("model/experts: the cache of grouped heads, as published") {
  const struct {
    const char* name;
    std::int64_t bytes;  // a token, f16
  } rows[] = {{"qwen3-8b", 147456},   {"qwen3-14b", 163840},      {"qwen3-32b", 262144},
              {"qwen3-0.6b", 114688}, {"llama-3.1-405b", 516096}, {"mistral-nemo-12b", 163840}};
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Transformer t = test::named_model(row.name);
    t.cache = CacheFormat::f16;
    const Share whole{.layers = Range{0, static_cast<std::int32_t>(t.layers)},
                      .heads = test::all_heads(t),
                      .columns = test::all_columns(t)};
    CHECK(cache_block_bytes(t, whole) == row.bytes * kCacheBlock);
  }
}

TEST_CASE("model/experts: published formats have published sizes") {
  Transformer t = test::named_model("gpt-oss-20b");
  t.formats = *chosen_formats("mxfp4", t);
  t.validate();
  const Share whole{.layers = Range{0, 24},
                    .heads = test::all_heads(t),
                    .columns = test::all_columns(t),
                    .embedding = true,
                    .head = true};
  // The model card's checkpoint: 12.8 GiB. Biases, norms and routers are f32 here.
  CHECK(weight_bytes(t, whole) / 1073741824.0 == doctest::Approx(12.8).epsilon(0.01));
  CHECK(row_bytes(WeightFormat::mxfp4, 64) == 34);
  CHECK(row_bytes(WeightFormat::nvfp4, 64) == 36);
  CHECK(row_bytes(WeightFormat::fp8, 64) == 64);
}

TEST_CASE("model/experts: config.json is restored from what is written") {
  for (const char* const name :
       {"mixtral-8x7b", "qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v2-lite", "deepseek-v3",
        "deepseek-v3.2", "kimi-k2", "glm-5", "glm-4.6", "minimax-m2", "llama-4-maverick"}) {
    CAPTURE(name);
    Transformer t = test::named_model(name);
    if (t.latent && t.latent->index_heads > 0) {
      t.latent->borrowed_index.assign(static_cast<std::size_t>(t.layers), false);
      t.latent->borrowed_index[5] = true;
    }
    t.quantisation = "fp8";
    CHECK(parse_config_json(to_config_json(t), "again") == t);
    CHECK(differences(t, t).empty());
    Transformer other = t;
    ++other.experts->chosen;
    CHECK(!differences(t, other).empty());
  }
}

TEST_CASE("model/experts: sizes that no product of may overflow are refused") {
  const auto fault = [](auto change) {
    Transformer t = test::named_model("deepseek-v3.2");
    change(t);
    return test::error_of([&] { t.validate(); });
  };
  CHECK(fault([](Transformer&) {}).empty());
  CHECK(test::contains(fault([](Transformer& t) {
                         t.heads = t.kv_heads = 1 << 20;
                         t.latent->value = 1 << 15;
                       }),
                       "heads * the value of a head"));
  CHECK(test::contains(fault([](Transformer& t) {
                         t.heads = t.kv_heads = 1 << 18;
                         t.latent->value = 1 << 12;
                         t.latent->rank = 1 << 16;
                         t.hidden = 64;
                       }),
                       "the number of parameters"));
  CHECK(test::contains(fault([](Transformer& t) {
                         t.latent->index_heads = t.latent->index_dims = 1 << 16;
                         t.latent->query_rank = 1 << 16;
                       }),
                       "the number of parameters"));
  CHECK(test::contains(fault([](Transformer& t) {
                         t.experts->count = 1 << 16;
                         t.intermediate = 1 << 28;
                       }),
                       "the number of parameters"));
  CHECK(test::contains(fault([](Transformer& t) { t.experts->chosen = 257; }),
                       "the number of experts a token uses is 257"));
  CHECK(test::contains(fault([](Transformer& t) { t.latent->rank = 0; }), "is 0, expected"));
  CHECK(test::contains(fault([](Transformer& t) { t.experts->dense_layers.pop_back(); }),
                       "one entry for each"));
}

TEST_CASE("model/experts: the first layers of a model keep their lists") {
  const Transformer t = test::named_model("deepseek-v3").first_layers(5);
  t.validate();
  CHECK(t.experts->dense_layers == std::vector<bool>{true, true, true, false, false});
  CHECK(!t.has_uniform_layers());
  CHECK(t.usual_layer() == 3);
  CHECK(test::named_model("mixtral-8x7b").has_uniform_layers());
}

TEST_CASE("model/experts: what cannot be executed is refused by name") {
  for (const char* const name : {"mixtral-8x7b", "deepseek-v3"}) {
    const std::string message =
        test::error_of([&] { test::named_model(name).require_executable(); });
    CHECK(test::contains(message, name));
    CHECK(test::contains(message, "experts a layer"));
    CHECK(test::contains(message, "planned and simulated only"));
  }
  Transformer t = test::named_model("qwen3-4b");
  t.require_executable();
  t.quantisation = "fp8";
  CHECK(test::contains(test::error_of([&] { t.require_executable(); }), "quantised by fp8"));
  t.quantisation.clear();
  t.formats = WeightFormats(WeightFormat::fp8);
  CHECK(test::contains(test::error_of([&] { t.require_executable(); }), "weights in fp8"));
}

}  // namespace tandem::model::experts_test
