// The named models against the numbers that the papers print and the public models have.

#include <doctest/doctest.h>

#include <cmath>

#include "tests/model/model_fixtures.hpp"

namespace tandem::model::geometries_test {
namespace {

struct Row {
  const char* name;
  Family family;
  std::int64_t layers, hidden, heads, kv_heads, intermediate, vocab, context;
  std::int64_t parameters;    // of the published model of this geometry
  double tolerance;           // 0: exact
  std::int64_t head_dim = 0;  // 0: hidden / heads
};

constexpr Family kLlama = Family::llama;
constexpr Family kGpt2 = Family::gpt2;

// Sizes: TPI-LLM Table 5; Galaxy Table IV; CSPS 3.1; MDI-LLM 3.3, 3.5 and Table I.
// Parameters: the published checkpoints'; nanoGPT's are MDI-LLM's, whose models have no biases on
// Q, K, V and do not count positions; nanollama's is MDI-LLM's name (304M).
constexpr Row kTable[] = {
    {"llama-2-3b", kLlama, 26, 3200, 32, 32, 8640, 32000, 4096, 3426473600, 0},
    {"llama-2-7b", kLlama, 32, 4096, 32, 32, 11008, 32000, 4096, 6738415616, 0},
    {"llama-2-13b", kLlama, 40, 5120, 40, 40, 13824, 32000, 4096, 13015864320, 0},
    {"llama-2-70b", kLlama, 80, 8192, 64, 8, 28672, 32000, 4096, 68976648192, 0},
    {"llama-3.1-8b", kLlama, 32, 4096, 32, 8, 14336, 128256, 131072, 8030261248, 0},
    {"llama-3.1-70b", kLlama, 80, 8192, 64, 8, 28672, 128256, 131072, 70553706496, 0},
    {"yi-34b", kLlama, 60, 7168, 56, 8, 20480, 64000, 4096, 34388917248, 0},
    {"distilbert", Family::distilbert, 6, 768, 12, 12, 3072, 30522, 512, 66362880, 0},
    {"bert-l", Family::bert, 24, 1024, 16, 16, 4096, 30522, 512, 335141888, 0.01},
    {"gpt2-l", kGpt2, 36, 1280, 20, 20, 5120, 50257, 1024, 774030080, 0},
    {"opt-l", Family::opt, 24, 2048, 16, 16, 8192, 50272, 2048, 1315758080, 0},
    {"opt-xl", Family::opt, 32, 2560, 32, 32, 10240, 50272, 2048, 2651596800, 0},
    {"glm-4-9b-1m", Family::glm, 40, 4096, 32, 2, 13696, 151552, 1048576, 9399951360, 0.01},
    {"internlm2.5-7b-1m", kLlama, 32, 4096, 32, 8, 14336, 92544, 1048576, 7737708544, 0},
    {"qwen2.5-7b", Family::qwen2, 28, 3584, 28, 4, 18944, 152064, 32768, 7615616512, 0},
    {"qwen3-8b", Family::qwen3, 36, 4096, 32, 8, 12288, 151936, 40960, 8190735360, 0},
    {"gemma-2-9b", Family::gemma2, 42, 3584, 16, 8, 14336, 256000, 8192, 9241705984, 0, 256},
    {"gemma-3-1b", Family::gemma3, 26, 1152, 4, 1, 6912, 262144, 32768, 999885952, 0, 256},
    // Of the published 12187325040 those of images left out.
    {"gemma-3-12b", Family::gemma3, 48, 3840, 16, 8, 15360, 262208, 131072, 11766034176, 0, 256},
    // Attention within 2047 positions is full attention up to there.
    {"phi-3-mini-4k", Family::phi3, 32, 3072, 32, 32, 8192, 32064, 2047, 3821079552, 0},
    {"phi-3-medium-4k", Family::phi3, 40, 5120, 40, 10, 17920, 32064, 2047, 13960238080, 0},
    {"granite-3.1-8b", Family::granite, 40, 4096, 32, 8, 12800, 49155, 131072, 8170848256, 0},
    {"smollm3-3b", Family::smollm3, 36, 2048, 16, 4, 11008, 128256, 65536, 3075098624, 0},
    {"nanogpt-7", kGpt2, 7, 384, 6, 6, 1536, 65, 128, 12438977, 0.01},
    {"nanogpt-9", kGpt2, 9, 384, 6, 6, 1536, 65, 128, 15985601, 0.01},
    {"nanogpt-12", kGpt2, 12, 384, 6, 6, 1536, 65, 128, 21305537, 0.01},
    {"gpt2", kGpt2, 12, 768, 12, 12, 3072, 50257, 1024, 124439808, 0},
    {"gpt2-medium", kGpt2, 24, 1024, 16, 16, 4096, 50257, 1024, 354823168, 0},
    {"gpt2-large", kGpt2, 36, 1280, 20, 20, 5120, 50257, 1024, 774030080, 0},
    {"gpt2-xl", kGpt2, 48, 1600, 25, 25, 6400, 50257, 1024, 1557611200, 0},
    {"nanollama-304m", kLlama, 12, 1024, 16, 16, 5120, 32000, 2048, 304000000, 0.005},
    {"tinyllama-1.1b", kLlama, 22, 2048, 32, 4, 5632, 32000, 2048, 1100048384, 0},
    {"tandem-demo", kLlama, 12, 768, 12, 4, 2048, 320, 1024, 76000000, 0.02},
};

}  // namespace

TEST_CASE("model/geometries: every named model has the sizes and parameters of its publication") {
  for (const Row& row : kTable) {
    CAPTURE(row.name);
    const Transformer t = test::named_model(row.name);
    CHECK(t.name == row.name);
    CHECK(t.family == row.family);
    CHECK(t.layers == row.layers);
    CHECK(t.hidden == row.hidden);
    CHECK(t.heads == row.heads);
    CHECK(t.kv_heads == row.kv_heads);
    CHECK(t.head_dim == (row.head_dim > 0 ? row.head_dim : row.hidden / row.heads));
    CHECK(t.intermediate == row.intermediate);
    CHECK(t.vocab == row.vocab);
    CHECK(t.max_context == row.context);
    if (row.tolerance == 0.0) {
      CHECK(t.parameters() == row.parameters);
    } else {
      CHECK(static_cast<double>(t.parameters()) ==
            doctest::Approx(static_cast<double>(row.parameters)).epsilon(row.tolerance));
    }
  }
}

TEST_CASE("model/geometries: nanollama's FFN, which its paper leaves out") {
  // Llama's rule makes the FFN a multiple of 256. 304M parameters less 2 * 32000 * 1024 of
  // embedding and head and 12 * 4 * 1024^2 of attention leave 188M for 12 * 3 * 1024 * C: C = 5103,
  // and the nearest multiple of 256 is 5120.
  const Transformer t = test::named_model("nanollama-304m");
  CHECK(t.intermediate % 256 == 0);
  const double columns = (304e6 - 2.0 * 32000 * 1024 - 12.0 * 4 * 1024 * 1024) / (12.0 * 3 * 1024);
  CHECK(std::abs(columns - 5120.0) < 128.0);
}

TEST_CASE("model/geometries: parameters of the shares sum to the whole, norms aside") {
  for (const Row& row : kTable) {
    CAPTURE(row.name);
    const Transformer t = test::named_model(row.name);
    const auto heads = static_cast<std::int32_t>(t.heads);
    const auto group = static_cast<std::int32_t>(t.group());
    // Cut at a multiple of the group: no key/value head is held twice.
    const std::int32_t cut = heads / group / 2 * group;
    // The norm is in every share.
    const std::int64_t norm = t.architecture().norm_vectors() * t.hidden;
    // So are that of the sum and those of heads.
    const std::int64_t sum_norm = t.architecture().sum_norms ? norm : 0;
    const std::int64_t head_norms = t.architecture().head_norms ? 2 * t.head_dim : 0;
    if (cut > 0 && cut < heads) {
      CHECK(t.attention_parameters({0, cut}) + t.attention_parameters({cut, heads}) - norm -
                sum_norm - head_norms ==
            t.attention_parameters({0, heads}));
    }
    const auto columns = static_cast<std::int32_t>(t.intermediate);
    CHECK(t.ffn_parameters({0, 7}) + t.ffn_parameters({7, columns}) - norm - sum_norm ==
          t.ffn_parameters({0, columns}));
    // A residual stream that continues from the norms needs them without any share.
    const std::int64_t without_share = sum_norm + (t.architecture().post_norm() ? norm : 0);
    CHECK(t.attention_parameters({3, 3}) == without_share);
    CHECK(t.ffn_parameters({3, 3}) == without_share);
  }
}

TEST_CASE("model/transformer: which key/value heads a range of query heads needs") {
  Transformer t = test::small_llama();  // 6 heads, 3 key/value heads: groups of 2
  CHECK(t.group() == 2);
  CHECK(t.kv_heads_for({0, 6}) == Range{0, 3});
  CHECK(t.kv_heads_for({0, 1}) == Range{0, 1});
  CHECK(t.kv_heads_for({1, 2}) == Range{0, 1});
  CHECK(t.kv_heads_for({1, 3}) == Range{0, 2});  // straddles two groups
  CHECK(t.kv_heads_for({4, 5}) == Range{2, 3});
  CHECK(t.kv_heads_for({3, 3}).empty());
  t.kv_heads = 1;
  for (std::int32_t h = 0; h < 6; ++h) CHECK(t.kv_heads_for({h, h + 1}) == Range{0, 1});
}

}  // namespace tandem::model::geometries_test
