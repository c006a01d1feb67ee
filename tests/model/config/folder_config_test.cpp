// config.json as other programs read it.

#include "model/config/folder_config.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/model/model_fixtures.hpp"

namespace tandem::model::folder_config_test {

using nlohmann::json;

TEST_CASE("model/folder config: has what other programs need, and reads back equal") {
  const std::pair<const char*, const char*> cases[] = {
      {"llama-3.1-8b", "LlamaForCausalLM"}, {"gpt2", "GPT2LMHeadModel"},
      {"opt-l", "OPTForCausalLM"},          {"bert-l", "BertModel"},
      {"distilbert", "DistilBertModel"},    {"glm-4-9b-1m", "GlmForCausalLM"},
      {"qwen2.5-7b", "Qwen2ForCausalLM"},   {"qwen3-8b", "Qwen3ForCausalLM"},
      {"gemma-2-9b", "Gemma2ForCausalLM"},  {"gemma-3-1b", "Gemma3ForCausalLM"},
      {"phi-3-mini-4k", "Phi3ForCausalLM"}, {"granite-3.1-8b", "GraniteForCausalLM"},
      {"smollm3-3b", "SmolLM3ForCausalLM"}, {"tandem-demo", "LlamaForCausalLM"}};
  for (const auto& [name, architecture] : cases) {
    CAPTURE(name);
    const Transformer t = test::named_model(name);
    const std::string text = to_folder_config_json(t, DType::bf16);
    CHECK(parse_config_json(text, "elsewhere.json") == t);
    const json config = json::parse(text);
    CHECK(config["architectures"] == json::array({architecture}));
    CHECK(config["torch_dtype"] == "bfloat16");
    const bool has_activation = config.contains("hidden_act") ||
                                config.contains("activation_function") ||
                                config.contains("activation");
    CHECK(has_activation);
    if (t.architecture().generates())
      for (const char* const token : {"bos_token_id", "eos_token_id", "pad_token_id"})
        CHECK(config.contains(token));
  }
}

TEST_CASE("model/folder config: Ministral's class, Gemma's activation, types that differ") {
  Transformer t = test::small_llama();
  t.rope_scaling = RopeScaling{.kind = RopeScaling::Kind::yarn,
                               .factor = 16.0,
                               .original_context = 64,
                               .attention_factor = 1.0F};
  t.query_growth = 0.1;
  const json ministral = json::parse(to_folder_config_json(t, std::nullopt));
  CHECK(ministral["architectures"] == json::array({"Ministral3ForCausalLM"}));
  CHECK(ministral["model_type"] == "ministral3");
  CHECK_FALSE(ministral.contains("torch_dtype"));
  const json gemma =
      json::parse(to_folder_config_json(test::named_model("gemma-2-9b"), DType::f32));
  CHECK(gemma["hidden_act"] == "gelu_pytorch_tanh");
  CHECK(gemma["hidden_activation"] == "gelu_pytorch_tanh");
  CHECK(gemma["torch_dtype"] == "float32");
}

}  // namespace tandem::model::folder_config_test
