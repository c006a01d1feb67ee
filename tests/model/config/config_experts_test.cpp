// config.json of models with experts: what is read, and what is refused.

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "model/config/stated_context.hpp"
#include "tests/model/model_fixtures.hpp"

namespace tandem::model::config_experts_test {
namespace {

nlohmann::json file(const std::string& name) {
  std::ifstream stream(testing::in_sources("scenarios/models/" + name + ".json"));
  return nlohmann::json::parse(stream);
}

Transformer parse(const nlohmann::json& json) { return parse_config_json(json.dump(), "m.json"); }

std::string fault(nlohmann::json json, const std::string& key, const nlohmann::json& value) {
  if (value.is_discarded()) {
    json.erase(key);
  } else {
    json[key] = value;
  }
  return test::error_of([&] { return parse(json); });
}

const nlohmann::json kAbsent(nlohmann::json::value_t::discarded);

}  // namespace

TEST_CASE("model/config: a longer context than is supported is stated by the file") {
  const auto stated = [](const nlohmann::json& json) {
    return stated_context(json.dump(), "m.json");
  };
  nlohmann::json scout = file("llama-4-scout");
  CHECK(parse(scout).max_context == 8192);
  CHECK(stated(scout) == 10485760);
  scout.erase("attention_chunk_size");
  CHECK(parse(scout).max_context == stated(scout));
  CHECK(stated(file("llama-3.2-1b")) == parse(file("llama-3.2-1b")).max_context);
}

TEST_CASE("model/config: numbers of Python's JSON are refused only where they are read") {
  const nlohmann::json known = file("llama-3.2-1b");
  for (const char* number : {"Infinity", "-Infinity", "NaN"}) {
    CAPTURE(number);
    nlohmann::json plain = known;
    plain.erase("initializer_range");
    const std::string own = plain.dump();
    CHECK(parse_config_json("{\"initializer_range\": " + std::string(number) + ", " + own.substr(1),
                            "m.json") == parse(plain));
    nlohmann::json without = known;
    without.erase("rope_theta");
    const std::string read = without.dump();
    CHECK(test::error_of([&] {
            return parse_config_json(
                "{\"rope_theta\": " + std::string(number) + ", " + read.substr(1), "m.json");
          }).find("'rope_theta' is \"" + std::string(number)) != std::string::npos);
  }
  // Nemotron-H has an endless time step.
  const std::string error = test::error_of([] {
    return parse_config_json(
        R"({"model_type": "nemotron_h", "note": "a \"NaN\" in a string", "time_step_limit": [0.0, Infinity]})",
        "m.json");
  });
  CHECK(error.find("nemotron_h") != std::string::npos);
  CHECK(error.find("JSON") == std::string::npos);
}

TEST_CASE("model/config experts: a bad field is one clear error") {
  const struct {
    const char* model;
    const char* key;
    nlohmann::json value;
    const char* expected;
  } rows[] = {
      {"mixtral-8x7b", "num_experts_per_tok", 9,
       "'num_experts_per_tok' is 9, expected at most the 8"},
      {"mixtral-8x7b", "num_experts_per_tok", 0, "'num_experts_per_tok' is 0"},
      {"mixtral-8x7b", "num_experts_per_tok", kAbsent, "'num_experts_per_tok' is missing"},
      {"mixtral-8x7b", "num_local_experts", kAbsent, "'num_local_experts' is missing"},
      {"mixtral-8x7b", "num_local_experts", "8", "'num_local_experts' is \"8\""},
      {"mixtral-8x7b", "hidden_act", "gelu", "'hidden_act' is \"gelu\""},
      {"mixtral-8x7b", "attention_bias", true, "'attention_bias' is true"},
      {"mixtral-8x7b", "shared_intermediate_size", 5, "'shared_intermediate_size' is 5"},
      {"mixtral-8x7b", "strange", 5, "unknown field \"strange\""},
      {"qwen3-30b-a3b", "moe_intermediate_size", kAbsent, "'moe_intermediate_size' is missing"},
      {"qwen3-30b-a3b", "num_experts", kAbsent, "'num_experts' is missing"},
      {"qwen3-30b-a3b", "mlp_only_layers", {48}, "'mlp_only_layers[0]' is 48"},
      {"deepseek-v3", "kv_lora_rank", kAbsent, "'kv_lora_rank' is missing"},
      {"deepseek-v3", "qk_rope_head_dim", kAbsent, "'qk_rope_head_dim' is missing"},
      {"deepseek-v3", "qk_rope_head_dim", 63, "'qk_rope_head_dim' is 63, expected an even size"},
      {"deepseek-v3", "num_key_value_heads", 64, "the number of key/value heads is 64"},
      {"deepseek-v3", "n_routed_experts", 4, "expected at most the 4 experts"},
      {"deepseek-v3", "first_k_dense_replace", 61, "the number of layers with experts is 0"},
      {"deepseek-v3", "intermediate_size", kAbsent, "the width of layers without experts"},
      {"deepseek-v3", "mlp_layer_types", {"dense"}, "expected one for each of the 61 layers"},
      {"deepseek-v3.2", "index_topk", kAbsent, "'index_topk' is missing"},
      {"gpt-oss-20b", "experts_per_token", 3, "'experts_per_token' is 3, expected 4"},
      {"gpt-oss-20b", "attention_bias", false, "'attention_bias' is false"},
      {"minimax-m2", "attn_type_list", {1, 0}, "'attn_type_list[1]' is 0"},
      {"llama-3.2-3b", "num_local_experts", 8, "'num_local_experts' is 8, expected none"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.model);
    CAPTURE(row.key);
    const std::string message = fault(file(row.model), row.key, row.value);
    CAPTURE(message);
    CHECK(test::contains(message, row.expected));
    CHECK_FALSE(test::contains(message, "\n"));
  }
}

TEST_CASE("model/config experts: models whose layers cannot be represented say what they have") {
  const std::pair<const char*, const char*> types[] = {{"qwen3_5_moe", "linear attention"},
                                                       {"gemma4", "differ by layer"},
                                                       {"gemma3n", "caches that layers share"},
                                                       {"nemotron_h", "Mamba"},
                                                       {"deepseek_v4", "blocks of keys"}};
  for (const auto& [type, reason] : types) {
    const std::string message = fault(file("mixtral-8x7b"), "model_type", type);
    CHECK(test::contains(message, std::string("'model_type' is \"") + type + "\""));
    CHECK(test::contains(message, reason));
  }
}

TEST_CASE("model/config experts: layers without experts") {
  nlohmann::json json = file("qwen3-30b-a3b");
  json["decoder_sparse_step"] = 2;
  json["mlp_only_layers"] = {5};
  const Transformer t = parse(json);
  CHECK(!t.experts->in(0));
  CHECK(t.experts->in(1));
  CHECK(!t.experts->in(5));
  CHECK(t.experts->dense == 6144);
  const Transformer maverick = parse(file("llama-4-maverick"));
  CHECK(!maverick.experts->in(0));
  CHECK(maverick.experts->in(1));
  CHECK(maverick.max_context == 8192);
  const Transformer glm = parse(file("glm-4.6"));
  CHECK(!glm.experts->in(2));
  CHECK(glm.experts->in(3));
  CHECK(glm.rotary_dims == 64);
}

TEST_CASE("model/config experts: quantised weights are planned, by method") {
  for (const char* const name : {"qwen3-4b", "mixtral-8x7b"}) {
    nlohmann::json json = file(name);
    json["quantization_config"] = {{"quant_method", "fp8"}, {"fmt", "e4m3"}};
    CHECK(parse(json).quantisation == "fp8");
    json["quantization_config"] = {{"quant_algo", "FP8"}};
    CHECK(parse(json).quantisation == "fp8");
    json["quantization_config"] = {{"quant_method", "gptq"}};
    CHECK(test::contains(test::error_of([&] { return parse(json); }), "'quantization_config'"));
  }
}

TEST_CASE("model/config experts: text parts of models that see") {
  nlohmann::json outer{{"architectures", {"Qwen3VLForConditionalGeneration"}},
                       {"model_type", "qwen3_vl"},
                       {"tie_word_embeddings", true},
                       {"vision_config", {{"depth", 24}}},
                       {"text_config", file("qwen3-4b")}};
  outer["text_config"].erase("architectures");
  outer["text_config"].erase("tie_word_embeddings");
  outer["text_config"]["model_type"] = "qwen3_vl_text";
  outer["text_config"]["rope_scaling"] = {
      {"rope_type", "default"}, {"mrope_interleaved", true}, {"mrope_section", {24, 20, 20}}};
  const Transformer t = parse(outer);
  CHECK(t.tied_embeddings);
  CHECK(t.parameters() == parse(file("qwen3-4b")).parameters());
  CHECK(t.family == Family::qwen3);
}

}  // namespace tandem::model::config_experts_test
