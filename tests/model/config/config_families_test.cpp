// What config.json says of Llama's successors, and of models that also see.

#include <doctest/doctest.h>

#include <string>

#include "model/base/error.hpp"
#include "model/config/folder_config.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model::config_families_test {

namespace {

template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// As google/gemma-3-4b-it and mistralai/Ministral-3-8B-Instruct-2512 have it, what reads images
// cut.
const std::string kGemma = R"({"architectures": ["Gemma3ForConditionalGeneration"],
  "boi_token_index": 255999, "eoi_token_index": 256000, "eos_token_id": [1, 106],
  "image_token_index": 262144, "initializer_range": 0.02, "mm_tokens_per_image": 256,
  "model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
  "model_type": "gemma3_text", "num_hidden_layers": 34,
  "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
  "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0", "vision_config": {}})";
const std::string kMistral = R"({"architectures": ["Mistral3ForConditionalGeneration"],
  "dtype": "bfloat16", "image_token_index": 10, "model_type": "mistral3",
  "multimodal_projector_bias": false, "projector_hidden_act": "gelu", "spatial_merge_size": 2,
  "text_config": {"attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
  "max_position_embeddings": 262144, "model_type": "ministral3", "num_attention_heads": 32,
  "num_hidden_layers": 34, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
  "rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0,
  "llama_4_scaling_beta": 0.1, "mscale": 1.0, "mscale_all_dim": 1.0,
  "original_max_position_embeddings": 16384, "rope_theta": 1000000.0, "rope_type": "yarn",
  "type": "yarn"}, "sliding_window": null, "tie_word_embeddings": false, "use_cache": true,
  "vocab_size": 131072}, "transformers_version": "5.0.0.dev0", "vision_config": {},
  "vision_feature_layer": -1})";

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("model/config_json: what families differ in counts as a difference, too") {
  const auto of = [](const std::string& type, const std::string& more) {
    return parse_config_json(
        R"({"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16,
            "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 128,
            "num_key_value_heads": 2, "model_type": ")" +
            type + "\"" + more + "}",
        "x.json");
  };
  const std::string window = R"(, "use_sliding_window": true, "sliding_window": 8)";
  const std::string gemma = R"(, "sliding_window": 8)";
  const struct {
    const char* field;
    Transformer model;
    void (*change)(Transformer& t);
  } changes[] = {
      {"sliding_window", of("gemma2", gemma), [](Transformer& x) { x.window = 9; }},
      {"layer_types", of("qwen3", window + R"(, "max_window_layers": 2)"),
       [](Transformer& x) { x.windowed[1] = true; }},
      {"rope_local_base_freq", of("gemma3_text", gemma),
       [](Transformer& x) { x.window_rope_theta = 2e4; }},
      {"partial_rotary_factor", of("phi3", ""), [](Transformer& x) { x.rotary_dims = 12; }},
      {"no_rope_layers", of("smollm3", ""), [](Transformer& x) { x.unrotated[0] = true; }},
      {"query_pre_attn_scalar", of("gemma2", gemma),
       [](Transformer& x) { x.attention_scale = 0.125; }},
      {"attn_logit_softcapping", of("gemma2", gemma), [](Transformer& x) { x.score_cap = 0.0; }},
      {"final_logit_softcapping", of("gemma3_text", gemma),
       [](Transformer& x) { x.logit_cap = 30.0; }},
      {"embedding_multiplier", of("granite", ""), [](Transformer& x) { x.embedding_scale = 12.0; }},
      {"residual_multiplier", of("granite", ""), [](Transformer& x) { x.residual_scale = 0.22; }},
      {"attention_multiplier", of("granite", ""), [](Transformer& x) { x.attention_scale = 0.1; }},
      {"logits_scaling", of("granite", ""), [](Transformer& x) { x.logit_divisor = 16.0; }},
  };
  for (const auto& change : changes) {
    CAPTURE(change.field);
    Transformer other = change.model;
    change.change(other);
    const auto found = differences(change.model, other);
    REQUIRE(found.size() == 1);
    CHECK(found[0].field == change.field);
    CHECK(parse_config_json(to_config_json(other), "x.json") == other);
    CHECK(parse_config_json(to_folder_config_json(other, DType::f16), "x.json") == other);
  }
}

TEST_CASE("model/config_json: of models that also see, the text's part is read") {
  const Transformer gemma = parse_config_json(kGemma, "x.json");
  CHECK(gemma.family == Family::gemma3);
  CHECK(gemma.heads == 8);
  CHECK(gemma.kv_heads == 4);
  CHECK(gemma.vocab == 262208);
  CHECK(gemma.max_context == 131072);
  CHECK(gemma.window_of(4) == 1024);
  CHECK(gemma.window_of(5) == 0);
  CHECK(gemma.eos_tokens == std::vector<std::int64_t>{1, 106});
  CHECK(gemma.parameters() == 3880263168);
  const Transformer mistral = parse_config_json(kMistral, "x.json");
  CHECK(mistral.family == Family::llama);
  CHECK(mistral.query_growth == 0.1);
  REQUIRE(mistral.rope_scaling.has_value());
  CHECK(mistral.rope_scaling->kind == RopeScaling::Kind::yarn);
  CHECK(mistral.rope_scaling->attention_factor == 1.0F);
  CHECK(mistral.parameters() == 8489553920);
  for (const Transformer& t : {gemma, mistral}) {
    Transformer back = parse_config_json(to_config_json(t), "x.json");
    CHECK(back == t);
  }
}

TEST_CASE("model/config_json: what may change a model that also sees is refused by name") {
  const auto message = [](const std::string& text) {
    return error_of([&] { (void)parse_config_json(text, "x.json"); });
  };
  CHECK(contains(message(with(kMistral, "\"dtype\": \"bfloat16\"", "\"quantization_config\": {}")),
                 "quantization_config"));
  CHECK(
      contains(message(with(kMistral, "\"ministral3\"", "\"qwen3\"")), "expected one of mistral"));
  CHECK(
      contains(message(with(kMistral, "Mistral3ForConditionalGeneration", "Other")), "\"Other\""));
  CHECK(contains(
      message(with(kMistral, "\"vision_feature_layer\": -1", "\"tie_word_embeddings\": true")),
      "tie_word_embeddings"));
  CHECK(contains(message(with(kMistral, "\"ministral3\"", "\"mistral\"")), "llama_4_scaling_beta"));
}

TEST_CASE(
    "model/config_json: what a family's files leave out is what its class takes for granted") {
  const std::string sizes = R"("num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
      "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 128)";
  const auto of = [&](const std::string& more) {
    return parse_config_json("{" + sizes + ", " + more + "}", "x.json");
  };
  const std::string ministral = R"("model_type": "ministral3", "num_key_value_heads": 2)";
  const Transformer t = of(ministral + R"(, "rope_parameters": {"rope_theta": 1e6})");
  CHECK(t.head_dim == 128);
  CHECK(t.norm_epsilon == 1e-5);
  CHECK(contains(error_of([&] { (void)of(ministral); }), "rope_parameters"));
  CHECK(contains(error_of([&] { (void)of(ministral + R"(, "rope_parameters": null)"); }),
                 "rope_parameters"));
  // These classes do not ask use_sliding_window.
  const std::string window = R"(, "use_sliding_window": false, "sliding_window": 8)";
  CHECK(of(R"("model_type": "phi3")" + window).max_context == 8);
  CHECK(of(ministral + R"(, "rope_parameters": {"rope_theta": 1e6})" + window).max_context == 8);
  CHECK(of(R"("model_type": "llama")" + window).max_context == 128);
}

TEST_CASE("model/config_json: a head that is tied outside of text_config alone is refused") {
  const std::string inner = ", \"tie_word_embeddings\": false";
  const std::string outer = "\"vision_feature_layer\": -1, \"tie_word_embeddings\": ";
  const auto message = [&](const std::string& tied) {
    const std::string text =
        with(with(kMistral, inner, ""), "\"vision_feature_layer\": -1", outer + tied);
    return error_of([&] { (void)parse_config_json(text, "x.json"); });
  };
  CHECK(contains(message("true"), "tie_word_embeddings"));
  CHECK(message("false").empty());
}

}  // namespace tandem::model::config_families_test
