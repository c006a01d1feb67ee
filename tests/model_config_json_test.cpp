#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/model_fixtures.hpp"

using namespace tandem::model;
using test::contains;
using test::error_of;

namespace {

// A valid Llama config with `extra` fields (", \"key\": value") at its end; the last of two equal
// keys counts.
std::string llama(const std::string& extra = "") {
  return R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100,
    "max_position_embeddings": 128, "rms_norm_eps": 1e-5)" +
         extra + "}";
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
      "padded_vocab_size": 100, "seq_length": 128, "rope_ratio": 500)";
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
  models.back().name = "a \"name\"\n of \xC3\xA9 kinds";
  for (const Transformer& t : models) {
    CAPTURE(t.name);
    CHECK(parse_config_json(to_config_json(t), "elsewhere.json") == t);
  }
}

TEST_CASE("model/config_json: every wrong field costs one line that names it") {
  const std::pair<const char*, const char*> wrong[] = {
      {R"(, "model_type": "qwen2")", "'model_type' is \"qwen2\", expected one of llama, mistral"},
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
      {R"(, "rope_scaling": {"type": "yarn", "factor": 2})", "'rope_scaling.type' is \"yarn\""},
      {R"(, "rope_scaling": {"type": "linear"})", "'rope_scaling.factor' is missing"},
      {R"(, "rope_scaling": {"type": "linear", "factor": 0.5})", "'rope_scaling.factor' is 0.5"},
      {R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
            "high_freq_factor": 4, "original_max_position_embeddings": 8192})",
       "'rope_scaling.high_freq_factor' is 4, expected a number above"},
      {R"(, "tie_word_embeddings": "no")", "'tie_word_embeddings' is \"no\", expected true or"},
      {R"(, "attention_bias": true)", "'attention_bias' is true, expected false"},
      {R"(, "mlp_bias": true)", "'mlp_bias' is true"},
      {R"(, "hidden_act": "gelu")", "'hidden_act' is \"gelu\", expected \"silu\""},
      {R"(, "eos_token_id": "</s>")", "'eos_token_id' is \"</s>\""},
      {R"(, "eos_token_id": [1, -2])", "'eos_token_id[1]' is -2"},
      {R"(, "bos_token_id": 1.5)", "'bos_token_id' is 1.5"},
      {R"(, "sliding_window": 0)", "'sliding_window' is 0"},
      {R"(, "hidden_size": 2147483632, "intermediate_size": 2147483647,
            "num_hidden_layers": 2147483647)",
       "the number of parameters"},
  };
  for (const auto& row : wrong) {
    const std::string extra = row.first;
    CAPTURE(extra);
    const std::string message = error_of([&] { return parse(llama(extra)); });
    CAPTURE(message);
    CHECK(contains(message, row.second));
    CHECK_FALSE(contains(message, "\n"));
    CHECK(message.size() < 400);
  }
  for (const char* key : {"model_type", "num_hidden_layers", "hidden_size", "num_attention_heads",
                          "intermediate_size", "vocab_size", "max_position_embeddings"}) {
    CAPTURE(key);
    std::string text = llama();
    text.replace(text.find(key), 3, "xxx");
    const std::string message = error_of([&] { return parse(text); });
    CHECK(contains(message, std::string("dir/m.json: field '") + key + "' is missing"));
  }
}

TEST_CASE("model/config_json: what is not a JSON object is refused with its place") {
  CHECK(contains(error_of([] { return parse(""); }), "dir/m.json: not JSON at byte"));
  CHECK(contains(error_of([] { return parse("{\"model_type\": \"lla"); }), "not JSON at byte"));
  CHECK(
      contains(error_of([] { return parse("[1, 2]"); }), "is an array of 2, expected a JSON obj"));
  CHECK(contains(error_of([] { return parse(llama() + "x"); }), "not JSON"));
  CHECK(contains(error_of([] { return parse(llama(", \"x\": 1e999")); }), "range of a double"));
  CHECK(contains(error_of([] { return parse(llama(", \"x\": \"\xFF\"")); }), "not JSON"));
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  CHECK(contains(error_of([&] { return parse(llama(", \"x\": " + deep)); }), "nested deeper"));
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

TEST_CASE("model/config_json: every field but the name counts as a difference") {
  Transformer t = parse(llama());
  Transformer renamed = t;
  renamed.name = "other";
  CHECK(differences(t, renamed).empty());
  // A field that Transformer gains breaks this line; add it to the list below.
  const auto& [name, family, layers, hidden, heads, kv_heads, head_dim, intermediate, vocab,
               max_context, tied, epsilon, theta, scaling, bos, eos] = t;
  static_cast<void>(name);
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
      {"bos_token_id", [](Transformer& x) { x.bos_token = 1; }},
      {"eos_token_id", [](Transformer& x) { x.eos_tokens = {2}; }},
  };
  for (const auto& change : changes) {
    CAPTURE(change.field);
    Transformer other = t;
    change.change(other);
    const auto found = differences(t, other);
    REQUIRE(found.size() == 1);
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
