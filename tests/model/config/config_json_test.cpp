#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/model_fixtures.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::model::config_json_test {

using test::contains;
using test::error_of;

namespace {

constexpr const char* kLlama = R"({"model_type": "llama", "num_hidden_layers": 2,
    "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 96,
    "vocab_size": 100, "max_position_embeddings": 128, "rms_norm_eps": 1e-5})";

// A config with the fields `extra` (", \"key\": value") added, or in place of those it has.
std::string with(const std::string& config, const std::string& extra) {
  nlohmann::json json = nlohmann::json::parse(config);
  if (!extra.empty()) json.update(nlohmann::json::parse("{" + extra.substr(1) + "}"));
  return json.dump();
}

std::string llama(const std::string& extra = "") { return with(kLlama, extra); }

// `extra` as it stands, whether that is JSON or not.
std::string raw(const std::string& extra) {
  std::string text = kLlama;
  text.pop_back();
  return text + extra + "}";
}

std::string published(const std::string& name) {
  std::ifstream file(tandem::testing::in_sources("tests/data/configs/" + name + ".json"));
  if (!file) file.open(tandem::testing::in_sources("scenarios/models/" + name + ".json"));
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

Transformer parse(const std::string& text) { return parse_config_json(text, "dir/m.json"); }

}  // namespace

TEST_CASE("model/config_json: the name is the file's, or its folder's") {
  CHECK(parse_config_json(llama(), "scenarios/models/llama-3.1-8b.json").name == "llama-3.1-8b");
  CHECK(parse_config_json(llama(), "/home/me/TinyLlama/config.json").name == "TinyLlama");
  CHECK(parse_config_json(llama(), "config.json").name == "config");
  CHECK(parse_config_json(llama(), "plain").name == "plain");
  CHECK(parse_config_json(llama(), "").name.empty());
}

TEST_CASE("model/config_json: Llama 1 has no key/value heads and no head_dim of its own") {
  const Transformer t = parse(
      R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96,
          "num_attention_heads": 8, "vocab_size": 100, "max_sequence_length": 2048,
          "torch_dtype": "float16", "head_dim": null, "rope_scaling": null})");
  CHECK(t.kv_heads == 8);
  CHECK(t.head_dim == 8);
  CHECK(t.max_context == 2048);
  CHECK(t.norm_epsilon == 1e-6);  // Hugging Face's default
  CHECK(t.rope_theta == 10000.0);
  CHECK_FALSE(t.rope_scaling);
  CHECK_FALSE(t.tied_embeddings);
}

TEST_CASE("model/config_json: an explicit head_dim need not be hidden / heads") {
  CHECK(parse(llama(R"(, "head_dim": 16)")).head_dim == 16);
}

TEST_CASE("model/config_json: rope scaling in its old, Llama 3.1 and newest forms") {
  const auto linear = parse(llama(R"(, "rope_scaling": {"type": "linear", "factor": 4.0})"));
  REQUIRE(linear.rope_scaling);
  CHECK(linear.rope_scaling->kind == RopeScaling::Kind::linear);
  CHECK(linear.rope_scaling->factor == 4.0);

  const std::string llama3 =
      R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192, "rope_theta": 500000.0})";
  const RopeScaling expected{RopeScaling::Kind::llama3, 8.0, 1.0, 4.0, 8192};
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    CAPTURE(key);
    const auto t =
        parse(llama(std::string(", \"rope_theta\": 500000, \"") + key + "\": " + llama3));
    REQUIRE(t.rope_scaling);
    CHECK(*t.rope_scaling == expected);
    CHECK(t.rope_theta == 500000.0);
  }
  CHECK_FALSE(parse(llama(R"(, "rope_scaling": {"rope_type": "default"})")).rope_scaling);
  CHECK_FALSE(parse(llama(R"(, "rope_scaling": {"type": "dynamic", "factor": 2.0})")).rope_scaling);
}

TEST_CASE("model/config_json: a sliding window caps the context, within which it changes nothing") {
  CHECK(parse(llama(R"(, "sliding_window": 32)")).max_context == 32);
  CHECK(parse(llama(R"(, "sliding_window": 4096)")).max_context == 128);
  CHECK(parse(llama(R"(, "sliding_window": null)")).max_context == 128);
  CHECK(parse(llama(R"(, "sliding_window": 32, "use_sliding_window": false)")).max_context == 128);
}

TEST_CASE("model/config_json: one or several end tokens, or none") {
  using Ids = std::vector<std::int64_t>;
  CHECK(parse(llama(R"(, "eos_token_id": 2)")).eos_tokens == Ids{2});
  CHECK(parse(llama(R"(, "eos_token_id": [5, 7, 9])")).eos_tokens == Ids{5, 7, 9});
  CHECK(parse(llama(R"(, "eos_token_id": null)")).eos_tokens.empty());
  CHECK(parse(llama()).bos_token == -1);
  CHECK(parse(llama(R"(, "bos_token_id": 1)")).bos_token == 1);
}

TEST_CASE("model/config_json: GPT-2's FFN is 4 times its width unless it says otherwise") {
  const std::string gpt2 = R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 48, "n_head": 6,
      "vocab_size": 65, "n_positions": 128, "n_inner": )";
  CHECK(parse(gpt2 + "null}").intermediate == 192);
  CHECK(parse(gpt2 + "100}").intermediate == 100);
  CHECK(parse(gpt2 + "null}").tied_embeddings);
  CHECK_FALSE(parse(gpt2 + R"(null, "tie_word_embeddings": false})").tied_embeddings);
}

TEST_CASE("model/config_json: ChatGLM without grouped queries ignores the number of groups") {
  const std::string glm = R"({"model_type": "chatglm", "num_layers": 2, "hidden_size": 64,
      "num_attention_heads": 8, "multi_query_group_num": 2, "ffn_hidden_size": 96,
      "padded_vocab_size": 100, "seq_length": 128, "add_qkv_bias": true, "rope_ratio": 500)";
  CHECK(parse(glm + "}").kv_heads == 8);
  CHECK(parse(glm + R"(, "multi_query_attention": true})").kv_heads == 2);
  CHECK(parse(glm + "}").rope_theta == 5e6);
}

TEST_CASE("model/config_json: what is written reads back equal") {
  std::vector<Transformer> models;
  for (const char* name : {"llama-2-70b", "llama-3.1-8b", "gpt2", "opt-l", "bert-l", "distilbert",
                           "glm-4-9b-1m", "internlm2.5-7b-1m", "tandem-demo"}) {
    models.push_back(test::named_model(name));
  }
  models.push_back(test::small_llama());
  models.back().rope_scaling = RopeScaling{.factor = 2.5};
  models.back().eos_tokens = {3, 4};
  models.back().tied_embeddings = true;
  models.back().name = "a \"name\" of \xC3\xA9 kinds";
  for (const Transformer& t : models) {
    CAPTURE(t.name);
    CHECK(parse_config_json(to_config_json(t), "elsewhere.json") == t);
  }
}

TEST_CASE("model/config_json: every wrong field costs one line that names it") {
  const std::pair<const char*, const char*> wrong[] = {
      {R"(, "model_type": "falcon")", "'model_type' is \"falcon\", expected one of llama, mistral"},
      {R"(, "model_type": 7)", "'model_type' is 7, expected a string"},
      {R"(, "hidden_size": "abc")", "'hidden_size' is \"abc\", expected an integer from 1"},
      {R"(, "hidden_size": 64.5)", "'hidden_size' is 64.5"},
      {R"(, "hidden_size": 0)", "'hidden_size' is 0"},
      {R"(, "hidden_size": -64)", "'hidden_size' is -64"},
      {R"(, "hidden_size": 2147483648)", "'hidden_size' is 2147483648"},
      {R"(, "hidden_size": 18446744073709551615)", "'hidden_size' is 18446744073709551615"},
      {R"(, "hidden_size": null)", "'hidden_size' is null"},
      {R"(, "hidden_size": [64])", "'hidden_size' is an array of 1"},
      {R"(, "hidden_size": 65)", "'hidden_size' is 65, expected a multiple of 8 heads"},
      {R"(, "hidden_size": 72)", "'hidden_size' is 72, expected an even size of a head, not 9"},
      {R"(, "head_dim": 7)", "'head_dim' is 7, expected an even size"},
      {R"(, "num_key_value_heads": 3)", "'num_key_value_heads' is 3, expected a divisor of 8"},
      {R"(, "num_key_value_heads": 16)", "'num_key_value_heads' is 16, expected a divisor of 8"},
      {R"(, "num_hidden_layers": {})", "'num_hidden_layers' is an object"},
      {R"(, "vocab_size": true)", "'vocab_size' is true"},
      {R"(, "max_position_embeddings": 0)", "'max_position_embeddings' is 0"},
      {R"(, "rms_norm_eps": 0)", "'rms_norm_eps' is 0, expected a positive number"},
      {R"(, "rms_norm_eps": "1e-5")", "'rms_norm_eps' is \"1e-5\""},
      {R"(, "rope_theta": -1.0)", "'rope_theta' is -1.0"},
      {R"(, "rope_scaling": 2)", "'rope_scaling' is 2, expected an object"},
      {R"(, "rope_scaling": {"factor": 2})", "'rope_scaling.type' is missing"},
      {R"(, "rope_scaling": {"type": "linear"})", "'rope_scaling.factor' is missing"},
      {R"(, "rope_scaling": {"type": "linear", "factor": 0.5})", "'rope_scaling.factor' is 0.5"},
      {R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
            "high_freq_factor": 4, "original_max_position_embeddings": 8192})",
       "'rope_scaling.high_freq_factor' is 4, expected a number above"},
      {R"(, "tie_word_embeddings": "no")", "'tie_word_embeddings' is \"no\", expected true or"},
      {R"(, "attention_bias": true)", "'attention_bias' is true, expected false"},
      {R"(, "mlp_bias": true)", "'mlp_bias' is true"},
      {R"(, "hidden_act": "gelu")", "'hidden_act' is \"gelu\", expected \"silu\""},
      {R"(, "num_experts": 8)", "'num_experts' is 8, expected none"},
      {R"(, "final_logit_softcapping": 30.0)", "'final_logit_softcapping' is 30.0"},
      {R"(, "partial_rotary_factor": 0.5)", "'partial_rotary_factor' is 0.5, expected 1"},
      {R"(, "rope_scaling": {"type": "linear", "factor": 2, "alpha": 1})",
       "unknown field \"alpha\""},
      {R"(, "rope_scaling": {"type": "linear", "rope_type": "llama3", "factor": 2})",
       "'rope_scaling.type' is \"linear\", expected \"llama3\""},
      {R"(, "rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {})",
       "'rope_parameters' is an object, expected none beside"},
      {R"(, "rope_theta": 1e4, "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"})",
       "'rope_parameters.rope_theta' is 1000000.0, expected the same"},
      {R"(, "architectures": ["LlamaForSequenceClassification"])",
       "'architectures[0]' is \"LlamaForSequenceClassification\", expected one of "
       "LlamaForCausalLM"},
      {R"(, "layer_types": ["full_attention"])", "expected one for each of the 2 layers"},
      {R"(, "layer_types": ["full_attention", "linear_attention"])", "'layer_types[1]'"},
      {R"(, "embedding_multiplier": 12)", "unknown field \"embedding_multiplier\""},
      {R"(, "eos_token_id": "</s>")", "'eos_token_id' is \"</s>\""},
      {R"(, "eos_token_id": [1, -2])", "'eos_token_id[1]' is -2"},
      {R"(, "bos_token_id": 1.5)", "'bos_token_id' is 1.5"},
      {R"(, "sliding_window": 0)", "'sliding_window' is 0"},
      {R"(, "hidden_size": 2147483632, "intermediate_size": 2147483647,
            "num_hidden_layers": 100000)",
       "the number of parameters"},
      {R"(, "num_hidden_layers": 100001)", "'num_hidden_layers' is 100001"},
  };
  for (const auto& row : wrong) {
    const std::string extra = row.first;
    CAPTURE(extra);
    const std::string message = error_of([&] { return parse(llama(extra)); });
    CAPTURE(message);
    CHECK(contains(message, row.second));
    CHECK_FALSE(contains(message, "\n"));
    CHECK(message.size() < 480);
  }
  for (const char* key : {"model_type", "num_hidden_layers", "hidden_size", "num_attention_heads",
                          "intermediate_size", "vocab_size", "max_position_embeddings"}) {
    CAPTURE(key);
    nlohmann::json without = nlohmann::json::parse(kLlama);
    without.erase(key);
    const std::string message = error_of([&] { return parse(without.dump()); });
    CHECK(contains(message, std::string("dir/m.json: field '") + key + "' is missing"));
  }
}

TEST_CASE("model/config_json: published files are read as their models are") {
  const struct {
    const char* name;
    Family family;
    std::int64_t kv_heads;
    std::int64_t head_dim;
    std::int64_t context;
    double rope_theta;
    bool tied;
  } files[] = {
      {"llama-1-7b", Family::llama, 32, 128, 2048, 1e4, false},
      {"llama-2-7b", Family::llama, 32, 128, 4096, 1e4, false},
      {"llama-3.1-8b-instruct", Family::llama, 8, 128, 131072, 5e5, false},
      {"llama-3.2-1b", Family::llama, 8, 64, 131072, 5e5, true},
      {"llama-newest-form", Family::llama, 8, 64, 131072, 5e5, true},
      {"tinyllama-1.1b-chat", Family::llama, 4, 64, 2048, 1e4, false},
      {"smollm2-135m", Family::llama, 3, 64, 8192, 1e5, true},
      {"yi-34b", Family::llama, 8, 128, 4096, 5e6, false},
      {"mistral-7b-v0.1", Family::llama, 8, 128, 4096, 1e4, false},
      {"mistral-7b-instruct-v0.3", Family::llama, 8, 128, 32768, 1e6, false},
      {"internlm2_5-7b-chat", Family::llama, 8, 128, 32768, 1e6, false},
      {"gpt2", Family::gpt2, 12, 64, 1024, 1e4, true},
      {"opt-125m", Family::opt, 12, 64, 2048, 1e4, true},
      {"glm-4-9b-chat", Family::glm, 2, 128, 131072, 5e6, false},
      {"glm-4-9b-chat-hf", Family::glm, 2, 128, 131072, 1e4, false},
      {"qwen2.5-0.5b", Family::qwen2, 2, 64, 32768, 1e6, true},
      {"bert-large-uncased", Family::bert, 16, 64, 512, 1e4, true},
  };
  for (const auto& file : files) {
    CAPTURE(file.name);
    const Transformer t = parse(published(file.name));
    CHECK(t.family == file.family);
    CHECK(t.kv_heads == file.kv_heads);
    CHECK(t.head_dim == file.head_dim);
    CHECK(t.max_context == file.context);
    CHECK(t.rope_theta == file.rope_theta);
    CHECK(t.tied_embeddings == file.tied);
    CHECK(t.architecture().generates() == (file.family != Family::bert));
  }
  CHECK(parse(published("llama-newest-form")).rope_scaling ==
        parse(published("llama-3.2-1b")).rope_scaling);
}

TEST_CASE("model/config_json: published files of models that tandem would get wrong are refused") {
  const std::pair<const char*, const char*> files[] = {
      {"opt-350m", "'word_embed_proj_dim' is 512, expected 1024"},
      {"llama-2-7b-gptq", "'quantization_config' is an object, expected none: quantised"},
      {"yarn-llama-2-7b-64k", "unknown field \"finetuned\""},
  };
  for (const auto& [name, expected] : files) {
    CAPTURE(name);
    const std::string text = published(name);
    CHECK(contains(error_of([&] { return parse(text); }), expected));
  }
  const std::string opt = published("opt-125m");
  for (const char* setting : {"do_layer_norm_before", "enable_bias"}) {
    CAPTURE(setting);
    const std::string other = with(opt, std::string(", \"") + setting + "\": false");
    CHECK(contains(error_of([&] { return parse(other); }), "is false, expected true"));
  }
}

// What if a field that tandem does not read differs? Every field of a published file is dropped,
// renamed and changed in turn: either it is refused, or the geometry is another one, or the field
// is one of those listed here, which change neither work, memory nor result.
TEST_CASE("model/config_json: a field that is renamed or changed is not ignored") {
  const std::vector<std::string> harmless = {"_name_or_path",
                                             "transformers_version",
                                             "torch_dtype",
                                             "use_cache",
                                             "initializer_range",
                                             "pretraining_tp",
                                             "pad_token_id",
                                             "init_std",
                                             "attention_dropout",
                                             "activation_dropout",
                                             "dropout",
                                             "layerdrop",
                                             "prefix",
                                             "attn_pdrop",
                                             "embd_pdrop",
                                             "resid_pdrop",
                                             "is_llama_config",
                                             "auto_map",
                                             "cache_implementation",
                                             "hidden_dropout"};
  for (const char* name :
       {"llama-3.1-8b-instruct", "smollm2-135m", "mistral-7b-v0.1", "opt-125m",
        "internlm2_5-7b-chat", "glm-4-9b-chat-hf", "qwen2.5-7b", "qwen3-8b", "gemma-2-9b",
        "gemma-3-12b", "granite-3.1-8b", "smollm3-3b", "phi-3-mini-4k"}) {
    const nlohmann::json good = nlohmann::json::parse(published(name));
    const Transformer read = parse(good.dump());
    const auto ignored = [&](const nlohmann::json& changed) {
      Transformer t;
      return error_of([&] { return t = parse(changed.dump()), 0; }).empty() && t == read;
    };
    for (const auto& [key, value] : good.items()) {
      if (std::find(harmless.begin(), harmless.end(), key) != harmless.end()) continue;
      CAPTURE(name);
      CAPTURE(key);
      nlohmann::json changed = good;
      if (value.is_boolean()) {
        changed[key] = !value.get<bool>();
      } else if (value.is_number()) {
        changed[key] = value.get<double>() * 2.0;
      } else {
        changed[key] = "other";
      }
      // These files have a window that no layer uses.
      const bool of_window = good.value("use_sliding_window", true) == false && !value.is_null() &&
                             key.find("window") != std::string::npos;
      const bool of_scaling =
          key == "original_max_position_embeddings" && good.at("rope_scaling").is_null();
      if (key != "attn_implementation" && !of_window && !of_scaling) CHECK_FALSE(ignored(changed));
      if (value.is_null()) continue;
      nlohmann::json renamed = good;
      renamed.erase(key);
      renamed[key + "x"] = value;
      CHECK_FALSE(ignored(renamed));
    }
  }
}

TEST_CASE("model/config_json: Hugging Face's defaults where a file says nothing") {
  const std::string mistral = llama(R"(, "model_type": "mistral", "num_attention_heads": 16,
      "max_position_embeddings": 8192)");
  CHECK(parse(mistral).max_context == 4096);  // absent: a window of 4096; null: none
  CHECK(parse(with(mistral, R"(, "sliding_window": null)")).max_context == 8192);
  // Its class does not ask whether the window is used.
  CHECK(
      parse(with(mistral, R"(, "sliding_window": 99, "use_sliding_window": false)")).max_context ==
      99);
  nlohmann::json ungrouped = nlohmann::json::parse(mistral);
  ungrouped.erase("num_key_value_heads");
  CHECK(parse(ungrouped.dump()).kv_heads == 8);
  CHECK(parse(with(mistral, R"(, "num_key_value_heads": null)")).kv_heads == 16);
  CHECK(contains(error_of([] { return parse(llama(R"(, "model_type": "internlm2")")); }),
                 "'bias' is missing"));
  CHECK(contains(error_of([] { return parse(llama(R"(, "model_type": "glm")")); }),
                 "'attention_bias' is missing"));
}

TEST_CASE("model/config_json: a field given twice is refused, as readers choose differently") {
  const auto message = [](const std::string& extra) {
    return error_of([&] { return parse(raw(extra)); });
  };
  CHECK(contains(message(R"(, "vocab_size": 100)"), "\"vocab_size\" is given twice"));
  CHECK(contains(message(R"(, "rope_scaling": {"type": "linear", "factor": 2, "factor": 4})"),
                 "\"factor\" is given twice"));
  CHECK(contains(message(R"(, "id2label": {"a": 1}, "label2id": {"a": 1}, "id2label": {})"),
                 "\"id2label\" is given twice"));
  CHECK(message(R"(, "id2label": {"a": 1}, "label2id": {"a": 1})").empty());
}

TEST_CASE("model/config_json: what is not a JSON object is refused with its place") {
  CHECK(contains(error_of([] { return parse(""); }), "dir/m.json: not JSON: empty, expected"));
  CHECK(contains(error_of([] { return parse("{\"model_type\": \"lla"); }),
                 "not JSON: it ends too early, after 19 bytes"));
  CHECK(contains(error_of([] { return parse("{]"); }), "not JSON at byte 2 of 2"));
  CHECK(
      contains(error_of([] { return parse("[1, 2]"); }), "is an array of 2, expected a JSON obj"));
  CHECK(contains(error_of([] { return parse(llama() + "x"); }), "not JSON"));
  CHECK(contains(error_of([] { return parse(raw(", \"x\": 1e999")); }), "range of a double"));
  CHECK(contains(error_of([] { return parse(raw(", \"x\": \"\xFF\"")); }), "not JSON"));
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  CHECK(contains(error_of([&] { return parse(raw(", \"x\": " + deep)); }), "nested deeper"));
  const std::string open(100000, '[');
  CHECK(contains(error_of([&] { return parse(open); }), "nested deeper"));
  const std::string big(2000000, ' ');
  CHECK(
      contains(error_of([&] { return parse(big + llama()); }), "bytes of JSON, expected at most"));
}

TEST_CASE("model/transformer: validate names the field that is wrong") {
  const auto message = [](auto change) {
    Transformer t = test::small_llama();
    change(t);
    return error_of([&] { return t.validate(), 0; });
  };
  CHECK(message([](Transformer&) {}).empty());
  CHECK(contains(message([](Transformer& t) { t.layers = 0; }), "number of layers is 0"));
  CHECK(contains(message([](Transformer& t) { t.kv_heads = 4; }), "a divisor of the number of"));
  CHECK(contains(message([](Transformer& t) { t.head_dim = 5; }), "head_dim is 5"));
  CHECK(contains(message([](Transformer& t) { t.heads = t.kv_heads = std::int64_t{1} << 30; }),
                 "heads * head_dim"));
  CHECK(contains(message([](Transformer& t) { t.norm_epsilon = 0.0; }), "norm_epsilon is 0"));
  CHECK(contains(message([](Transformer& t) { t.rope_theta = -1.0; }), "rope_theta is -1"));
  CHECK(contains(message([](Transformer& t) { t.bos_token = -2; }), "bos_token_id is -2"));
  CHECK(contains(message([](Transformer& t) { t.eos_tokens = {1, -1}; }), "eos_token_id is -1"));
  CHECK(contains(message([](Transformer& t) { t.rope_scaling = RopeScaling{.factor = 0.0}; }),
                 "rope_scaling.factor is 0"));
}

TEST_CASE("model/config_json: every field but the name and the formats counts as a difference") {
  Transformer t = parse(llama());
  Transformer renamed = t;
  renamed.name = "other";
  renamed.formats = WeightFormats(WeightFormat::q8_0);  // choices, not config.json's
  renamed.cache = CacheFormat::f16;
  CHECK(differences(t, renamed).empty());
  // A field that Transformer gains breaks this line; add it to the list below.
  const auto& [name, family, layers, hidden, heads, kv_heads, head_dim, intermediate, vocab,
               max_context, tied, activation, token_types, epsilon, theta, scaling, rotary_dims,
               window, windowed, window_theta, unrotated, attention_scale, embedding_scale,
               residual_scale, logit_divisor, score_cap, query_growth, logit_cap, bos, eos, experts,
               latent, quantisation, formats, cache] = t;
  static_cast<void>(name);
  static_cast<void>(formats);
  static_cast<void>(cache);
  const struct {
    const char* field;
    void (*change)(Transformer& t);
  } changes[] = {
      {"model_type", [](Transformer& x) { x.family = Family::glm; }},
      {"num_hidden_layers", [](Transformer& x) { x.layers = 3; }},
      {"hidden_size", [](Transformer& x) { x.hidden = 128; }},
      {"num_attention_heads", [](Transformer& x) { x.heads = 4; }},
      {"num_key_value_heads", [](Transformer& x) { x.kv_heads = 4; }},
      {"head_dim", [](Transformer& x) { x.head_dim = 4; }},
      {"intermediate_size", [](Transformer& x) { x.intermediate = 97; }},
      {"vocab_size", [](Transformer& x) { x.vocab = 101; }},
      {"max_position_embeddings", [](Transformer& x) { x.max_context = 129; }},
      {"tie_word_embeddings", [](Transformer& x) { x.tied_embeddings = true; }},
      {"rms_norm_eps", [](Transformer& x) { x.norm_epsilon = 1.00001e-5; }},
      {"rope_theta", [](Transformer& x) { x.rope_theta = 5e5; }},
      {"rope_scaling", [](Transformer& x) { x.rope_scaling = RopeScaling{.factor = 2.0}; }},
      {"tandem_experts", [](Transformer& x) { x.experts = Experts{.count = 4, .chosen = 2}; }},
      {"quantization_config", [](Transformer& x) { x.quantisation = "fp8"; }},
      {"bos_token_id", [](Transformer& x) { x.bos_token = 1; }},
      {"eos_token_id", [](Transformer& x) { x.eos_tokens = {2}; }},
  };
  for (const auto& change : changes) {
    CAPTURE(change.field);
    Transformer other = t;
    change.change(other);
    const auto found = differences(t, other);
    // GLM has biases, which its file says.
    REQUIRE(found.size() == (other.family == t.family ? 1 : 2));
    CHECK(found[0].field == change.field);
    CHECK(found[0].first != found[0].second);
  }
}

TEST_CASE("model/config_json: a difference says both values, null for a field that is not there") {
  Transformer t = parse(llama());
  Transformer other = t;
  other.rope_theta = 5e5;
  other.bos_token = 7;
  CHECK(differences(t, other) == std::vector<FieldDifference>{{"rope_theta", "10000.0", "500000.0"},
                                                              {"bos_token_id", "null", "7"}});
  CHECK(differences(other, t).at(1) == FieldDifference{"bos_token_id", "7", "null"});
  t.rope_scaling = RopeScaling{.kind = RopeScaling::Kind::llama3, .factor = 8.0};
  other = t;
  other.rope_scaling->low_frequency_factor = 2.0;
  REQUIRE(differences(t, other).size() == 1);
  CHECK(contains(differences(t, other)[0].second, "\"low_freq_factor\":2.0"));
}

}  // namespace tandem::model::config_json_test
