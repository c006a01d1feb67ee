// Successors of Llama in both forms: a folder and a GGUF file of one model are one model.

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "exec/gguf/conversion/model_conversion.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/gguf/gguf_geometry.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/random_weights.hpp"
#include "exec/weights/shard.hpp"
#include "tests/exec/gguf/gguf_support.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/block_support.hpp"

namespace tandem::exec::gguf_families_test {
namespace {

namespace fs = std::filesystem;
using model::Family;
using model::Transformer;
using testing::contents_of;
using testing::error_of;
using testing::has;
using testing::read_all;
using testing::TemporaryFolder;

constexpr Family kFamilies[] = {Family::qwen2, Family::qwen3,   Family::gemma2, Family::gemma3,
                                Family::phi3,  Family::granite, Family::smollm3};

// Of Hugging Face's defaults where GGUF files say nothing.
Transformer model_of(Family family) {
  Transformer t = testing::in_blocks(testing::small_llama(), model::WeightFormat::f32);
  t.family = family;
  t.layers = 7;
  t.norm_epsilon = 1e-6;
  const auto by_layer = [&](auto of) {
    std::vector<bool> list;
    for (std::int64_t layer = 0; layer < t.layers; ++layer) list.push_back(of(layer));
    return list;
  };
  if (family == Family::gemma2 || family == Family::gemma3) {
    const int every = family == Family::gemma2 ? 2 : 6;
    t.activation = model::Activation::gelu_tanh;
    t.tied_embeddings = true;
    t.embedding_scale = std::sqrt(static_cast<double>(t.hidden));
    t.window = 5;
    t.windowed = by_layer([&](std::int64_t layer) { return (layer + 1) % every != 0; });
  }
  if (family == Family::gemma2) {
    t.score_cap = 50.0;
    t.logit_cap = 30.0;
  }
  if (family == Family::gemma3) {
    t.rope_theta = 1e6;
    t.window_rope_theta = 10000.0;
    t.rope_scaling = model::RopeScaling{.factor = 8.0};
  }
  if (family == Family::granite) {
    t.embedding_scale = 12.0;
    t.residual_scale = 0.22;
    t.attention_scale = 0.0078125;
    t.logit_divisor = 16.0;
  }
  if (family == Family::smollm3)
    t.unrotated = by_layer([](std::int64_t layer) { return (layer + 1) % 4 == 0; });
  if (family == Family::phi3) {
    t.rotary_dims = t.head_dim / 2;
    t.rope_scaling = model::RopeScaling{.kind = model::RopeScaling::Kind::longrope,
                                        .original_context = 16,
                                        .attention_factor = 1.1902381F};
    for (std::int64_t i = 0; i < t.rotary_dims / 2; ++i) {
      t.rope_scaling->short_factors.push_back(1.0F + 0.01F * static_cast<float>(i));
      t.rope_scaling->long_factors.push_back(1.5F + 0.3F * static_cast<float>(i));
    }
  }
  return t;
}

std::vector<model::Share> shares_of(const Transformer& t) {
  const model::Range layers{0, static_cast<std::int32_t>(t.layers)};
  return {testing::whole_share(t),
          {layers, {1, 4}, {32, 96}, false, false},
          {layers, {0, 0}, {0, 32}, false, false},  // norms of sums, without heads
          {{1, 2}, {5, 6}, {128, 160}, false, true}};
}

TEST_CASE("exec/gguf families: a folder, its GGUF file and the folder of that are one model") {
  for (const Family family : kFamilies) {
    const Transformer t = model_of(family);
    CAPTURE(model::to_string(family));
    const TemporaryFolder home;
    const fs::path folder = home.path() / "a";
    const fs::path file = home.path() / "b.gguf";
    const fs::path back = home.path() / "c";
    write_random_weights(t, 3, model::DType::f32, folder);
    CHECK(read_geometry(folder) == t);
    CHECK(convert_model({.weights = folder, .out = file}).empty());
    CHECK(convert_model({.weights = file, .out = back}).empty());
    CHECK(read_geometry(file) == t);
    CHECK(read_all(back / "config.json") == read_all(folder / "config.json"));
    const bool gemma = family == Family::gemma2 || family == Family::gemma3;
    // Gemma's norms are stored less 1 in a folder alone, and rounded where 1 is added.
    if (!gemma)
      CHECK(read_all(back / "model.safetensors") == read_all(folder / "model.safetensors"));
    for (const model::Share& share : shares_of(t)) {
      const std::string expected = contents_of(Shard::slice(folder, t, share));
      CHECK(contents_of(Shard::slice(file, t, share)) == expected);
      CHECK(contents_of(Shard::slice(back, t, share)) == expected);
    }
  }
}

model::RopeScaling yarn(float attention_factor) {
  return {.kind = model::RopeScaling::Kind::yarn,
          .factor = 4.0,
          .original_context = 16,
          .attention_factor = attention_factor};
}

TEST_CASE("exec/gguf families: YaRN's growth is the folder's to the last bit") {
  const TemporaryFolder home;
  for (const float growth : {0.9F, 0.3F, 1.1F, 1.3333333F, 2.7182817F}) {
    CAPTURE(growth);
    Transformer t = model_of(Family::qwen2);
    t.rope_scaling = yarn(growth);
    write_random_weights(t, 3, model::DType::f32, home.path() / "a");
    const fs::path file = home.path() / "b.gguf";
    CHECK(convert_model({.weights = home.path() / "a", .out = file}).empty());
    CHECK(read_geometry(file) == read_geometry(home.path() / "a"));
  }
}

TEST_CASE("exec/gguf families: what GGUF cannot say of a family is refused, and nothing written") {
  const struct {
    Family family;
    void (*change)(Transformer& t);
    const char* expected;
  } cases[] = {
      {Family::gemma2, [](Transformer& t) { t.attention_scale = 0.125; }, "query_pre_attn_scalar"},
      {Family::gemma2, [](Transformer& t) { t.windowed[2] = false; }, "in no period"},
      {Family::gemma2, [](Transformer& t) { t.score_cap = 0.0; }, "without a cap"},
      {Family::gemma3, [](Transformer& t) { t.logit_cap = 30.0; }, "caps of scores or logits"},
      {Family::smollm3, [](Transformer& t) { t.unrotated[0] = true; }, "not every fourth"},
      {Family::gemma3, [](Transformer& t) { t.rope_scaling = yarn(0.9F); }, "growth of its own"},
      {Family::phi3, [](Transformer& t) { t.rope_scaling = model::RopeScaling{.factor = 2.0}; },
       "rotation scaled as rope_scaling says"},
      {Family::qwen2,
       [](Transformer& t) {
         t.rope_scaling = model_of(Family::phi3).rope_scaling;
         const auto pairs = static_cast<std::size_t>(t.rotated() / 2);
         t.rope_scaling->short_factors.resize(pairs, 1.0F);
         t.rope_scaling->long_factors.resize(pairs, 2.0F);
       },
       "rotation scaled as rope_scaling says"},
      {Family::qwen3,
       [](Transformer& t) {
         t.window = 4;
         t.windowed.assign(static_cast<std::size_t>(t.layers), true);
       },
       "attend within a window"},
  };
  for (const auto& one : cases) {
    Transformer t = model_of(one.family);
    one.change(t);
    CAPTURE(one.expected);
    const TemporaryFolder home;
    write_random_weights(t, 3, model::DType::f32, home.path() / "a");
    const fs::path file = home.path() / "b.gguf";
    CHECK(has(error_of([&] { (void)convert_model({.weights = home.path() / "a", .out = file}); }),
              one.expected));
    CHECK_FALSE(fs::exists(file));
  }
}

// A file of `arch` and a table of tokens.
testing::GgufParts small(const std::string& arch, const std::vector<std::string>& more) {
  using namespace testing;
  GgufParts parts{
      .entries = {entry("general.architecture", arch), entry(arch + ".block_count", 7U),
                  entry(arch + ".context_length", 64U), entry(arch + ".embedding_length", 8U),
                  entry(arch + ".feed_forward_length", 12U),
                  entry(arch + ".attention.head_count", 2U),
                  real_entry(arch + ".attention.layer_norm_rms_epsilon", 1e-5F)},
      .tensors = {tensor_entry("token_embd.weight", {8, 5}, 0, 0)},
      .data = 160};
  for (const std::string& one : more) parts.entries.push_back(one);
  return parts;
}

Transformer geometry(const testing::GgufParts& parts) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "small.gguf";
  testing::write_text(path, parts.text());
  return gguf_geometry(GgufFile(path));
}

Transformer geometry(const std::string& arch, const std::vector<std::string>& more) {
  return geometry(small(arch, more));
}

TEST_CASE("exec/gguf families: keys that are absent or switch say what they say in llama.cpp") {
  using namespace testing;
  // Granite's positions are rotated or not by this key; other families' are, whatever it says.
  const auto finetuned = [](const std::string& arch, std::uint8_t value) {
    return std::vector{real_entry(arch + ".logit_scale", 1.0F),
                       entry(arch + ".rope.scaling.finetuned", 7, raw(value))};
  };
  CHECK(has(error_of([&] { (void)geometry("granite", finetuned("granite", 0)); }),
            "granite.rope.scaling.finetuned is false, expected true"));
  CHECK(geometry("granite", finetuned("granite", 1)).layers == 7);
  CHECK(geometry("llama", finetuned("llama", 0)).layers == 7);

  CHECK(geometry("gemma2", {}).window == 4096);
  CHECK(has(error_of([] { (void)geometry("gemma3", {}); }),
            "gemma3.attention.sliding_window is missing"));

  const std::vector<std::string> yarn{entry("mistral3.rope.scaling.type", "yarn"),
                                      real_entry("mistral3.rope.scaling.factor", 16.0F)};
  std::vector<std::string> alike = yarn;
  alike.push_back(real_entry("mistral3.rope.scaling.yarn_log_multiplier", 1.0F));
  CHECK(geometry("mistral3", alike).rope_scaling->attention_factor == 1.0F);
  CHECK(geometry("mistral3", yarn).rope_scaling->attention_factor == doctest::Approx(1.2772589));
}

TEST_CASE("exec/gguf families: factors of rotation are of families that read them") {
  using namespace testing;
  // llama.cpp finds a tensor too many in files of the other families.
  for (const Family family : kFamilies) {
    CAPTURE(model::to_string(family));
    Transformer scaled = model_of(family);
    scaled.rotary_dims = 0;
    scaled.rope_scaling =
        model::RopeScaling{.kind = model::RopeScaling::Kind::llama3, .factor = 8.0};
    const TemporaryFolder home;
    const fs::path file = home.path() / "b.gguf";
    write_random_weights(scaled, 3, model::DType::f32, home.path() / "a");
    const auto convert = [&] { (void)convert_model({.weights = home.path() / "a", .out = file}); };
    if (family == Family::granite) {
      convert();
      CHECK(read_geometry(file) == scaled);
    } else {
      CHECK(has(error_of(convert), "which a GGUF file of its family cannot say"));
    }
  }
  for (const Family family : kFamilies) {
    const std::string arch(gguf_name(family));
    CAPTURE(arch);
    const std::vector<std::string> keys{family == Family::gemma3
                                            ? entry(arch + ".attention.sliding_window", 4U)
                                            : real_entry(arch + ".logit_scale", 1.0F)};
    GgufParts parts = small(arch, keys);
    parts.tensors.push_back(tensor_entry("rope_freqs.weight", {2}, 0, 160));
    parts.data += 32;
    const std::string refused = error_of([&] { (void)geometry(parts); });
    // Zeros are no rule's.
    CHECK(has(refused, family == Family::granite
                           ? std::string("rope_freqs.weight: number 0 is 0")
                           : "rope_freqs.weight: factors of rotation, which only files of llama, "
                             "mistral3 and granite have, expected none in one of " +
                                 arch));
  }
}

TEST_CASE("exec/gguf families: what is wrong is told of the file and its key") {
  using namespace testing;
  const auto wrong = [](const std::string& arch, const std::vector<std::string>& keys) {
    return error_of([&] { (void)geometry(arch, keys); });
  };
  CHECK(has(wrong("llama", {entry("llama.attention.key_length", 3U)}),
            "small.gguf: llama.attention.key_length is 3, expected an even number"));
  CHECK(has(wrong("llama", {entry("llama.attention.head_count_kv", 3U)}),
            "small.gguf: llama.attention.head_count_kv is 3, expected a divisor of 2 heads"));
  CHECK(has(wrong("phi3", {entry("phi3.rope.dimension_count", 6U)}),
            "small.gguf: phi3.rope.dimension_count is 6, expected an even number up to 4"));
  GgufParts parts = small("llama", {});
  parts.entries[6] = real_entry("llama.attention.layer_norm_rms_epsilon", 2.0F);
  CHECK(has(error_of([&] { (void)geometry(parts); }),
            "llama.attention.layer_norm_rms_epsilon is 2.0, expected a number between 0 and 1"));
  const std::vector<std::string> turns{entry("mistral3.rope.scaling.type", "yarn"),
                                       real_entry("mistral3.rope.scaling.factor", 16.0F),
                                       real_entry("mistral3.rope.scaling.yarn_beta_slow", 99.0F)};
  const auto grown = [](const std::string& arch) {
    return std::vector{entry(arch + ".rope.scaling.type", "yarn"),
                       entry(arch + ".attention.sliding_window", 4U),
                       real_entry(arch + ".rope.scaling.factor", 4.0F),
                       real_entry(arch + ".rope.scaling.attn_factor", 0.5F)};
  };
  CHECK(has(wrong("gemma3", grown("gemma3")),
            "gemma3.rope.scaling.attn_factor is 0.5, expected 1: layers of the window do not"));
  std::vector<std::string> other = grown("llama");
  other.push_back(real_entry("tandem.rope.attention_factor", 0.6F));
  CHECK(has(wrong("llama", other), "tandem.rope.attention_factor is 0.6, expected 0.569315"));
  CHECK(has(wrong("llama", {real_entry("tandem.rope.attention_factor", 0.6F)}),
            "tandem.rope.attention_factor is 0.6, expected none"));
  const std::string text = wrong("mistral3", turns);
  CHECK(has(text, "small.gguf: model 'small': rope_scaling.beta_slow is 99"));
  CHECK(has(text, "; convert the model anew"));
  CHECK_FALSE(has(text, "config.json"));

  // LongRoPE's: zeros, a shape with another size behind it, a factor that is none.
  const auto factors = [&](const std::vector<std::uint64_t>& sizes, float attention) {
    GgufParts more = small("phi3", {entry("phi3.rope.scaling.original_context_length", 8U),
                                    real_entry("phi3.rope.scaling.attn_factor", attention)});
    more.tensors.push_back(tensor_entry("rope_factors_long.weight", sizes, 0, 160));
    more.tensors.push_back(tensor_entry("rope_factors_short.weight", sizes, 0, 192));
    more.data += 64;
    return error_of([&] { (void)geometry(more); });
  };
  CHECK(has(factors({2}, 1.0F),
            "small.gguf: rope_factors_short.weight: number 0 is 0.000000, expected positive"));
  CHECK(has(factors({2, 1}, 1.0F),
            "small.gguf: rope_factors_short.weight: F32 [1, 2], expected F32 [2], one number for"));
  CHECK(has(factors({2}, 0.0F), "phi3.rope.scaling.attn_factor is 0.0, expected a positive"));

  // The other scaling of rotation is named.
  for (const bool linear : {true, false}) {
    GgufParts both = small("llama", {entry("llama.rope.scaling.type", linear ? "linear" : "yarn"),
                                     real_entry("llama.rope.scaling.factor", 4.0F)});
    both.tensors.push_back(tensor_entry("rope_freqs.weight", {2}, 0, 160));
    both.data += 32;
    CHECK(has(error_of([&] { (void)geometry(both); }),
              std::string("rope_freqs.weight: factors of rotation beside llama.rope.scaling.type "
                          "'") +
                  (linear ? "linear" : "yarn") + "', expected one of the two"));
  }
}

}  // namespace
}  // namespace tandem::exec::gguf_families_test
