// GPT-2, OPT and the encoders through the program: planned, simulated, run and compared.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::family_commands_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

const std::map<std::string, const char*> kConfigs{
    {"gpt2", R"({"model_type": "gpt2", "n_layer": 3, "n_embd": 48, "n_head": 4, "vocab_size": 300,
                 "n_positions": 128})"},
    {"opt", R"({"model_type": "opt", "num_hidden_layers": 3, "hidden_size": 48, "ffn_dim": 100,
                "num_attention_heads": 4, "vocab_size": 300, "max_position_embeddings": 128,
                "word_embed_proj_dim": 48, "do_layer_norm_before": true})"},
    {"bert", R"({"model_type": "bert", "num_hidden_layers": 3, "hidden_size": 48,
                 "num_attention_heads": 4, "intermediate_size": 100, "vocab_size": 300,
                 "max_position_embeddings": 128, "type_vocab_size": 2})"},
    {"distilbert", R"({"model_type": "distilbert", "n_layers": 3, "dim": 48, "n_heads": 4,
                       "hidden_dim": 100, "vocab_size": 300, "max_position_embeddings": 128})"},
};

void make_model(const Kitchen& bench, const std::string& name) {
  bench.write(name + ".json", kConfigs.at(name));
  bench.must({"model", "random", "--config", name + ".json", "--out", name, "--quiet"});
}

Words plan_words(const std::string& model, const Words& more) {
  Words words{"plan",  "--platform", "pair.xml",        "--model", model,
              "--out", "plan.json",  "--prompt-tokens", "6",       "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Values of a .npy file of f32, after its header.
std::vector<float> values_of(const std::string& npy) {
  const std::size_t begin = npy.find('\n') + 1;
  REQUIRE(npy.starts_with("\x93NUMPY"));
  REQUIRE(begin % 64 == 0);
  std::vector<float> values((npy.size() - begin) / sizeof(float));
  std::memcpy(values.data(), npy.data() + begin, values.size() * sizeof(float));
  return values;
}

}  // namespace

TEST_CASE("cli/families: GPT-2 and OPT generate the same tokens on one device and on two") {
  for (const char* model : {"gpt2", "opt"}) {
    const Kitchen bench;
    make_model(bench, model);
    Json tokens;
    for (const Words& how : {Words{"--strategy", "local"}, Words{"--strategy", "tensor"},
                             Words{"--strategy", "pipeline", "--partition", "equal"}}) {
      Words more = how;
      more.insert(more.end(), {"--new-tokens", "5"});
      bench.must(plan_words(model, more));
      bench.must({"simulate", "plan.json", "--out", "predicted.json", "--quiet"});
      bench.must({"run", "plan.json", "--weights", model, "--emulate", "--pace", "nominal",
                  "--cache", "cache", "--out", "measured.json", "--quiet", "--prompt", "Hello!"});
      const Json measured = Json::parse(bench.read("measured.json"));
      const Json predicted = Json::parse(bench.read("predicted.json"));
      CAPTURE(how[1]);
      if (tokens.is_null()) tokens = measured["tokens"];
      CHECK(tokens.size() == 5);
      CHECK(measured["tokens"] == tokens);
      for (std::size_t d = 0; d < measured["devices"].size(); ++d)
        CHECK(measured["devices"][d]["bytes_sent"] == predicted["devices"][d]["bytes_sent"]);
    }
    check_refused(bench, {"run", "plan.json", "--weights", model, "--emulate", "--hidden", "h.npy"},
                  2, "which is not an encoder");
  }
}

TEST_CASE("cli/families: an encoder's hidden states are the same on one device and on two") {
  for (const char* model : {"bert", "distilbert"}) {
    const Kitchen bench;
    make_model(bench, model);
    std::vector<float> states;
    for (const Words& how : {Words{"--strategy", "local"}, Words{"--strategy", "tensor"},
                             Words{"--strategy", "pipeline", "--partition", "equal"}}) {
      bench.must(plan_words(model, how));
      bench.must({"simulate", "plan.json", "--out", "predicted.json", "--quiet"});
      bench.must({"run", "plan.json", "--weights", model, "--emulate", "--pace", "nominal",
                  "--cache", "cache", "--out", "measured.json", "--quiet", "--prompt", "Hello!",
                  "--hidden", "states.npy"});
      CAPTURE(how[1]);
      const std::string npy = bench.read("states.npy");
      CHECK(npy.find("'descr': '<f4', 'fortran_order': False, 'shape': (6, 48)") !=
            std::string::npos);
      const std::vector<float> now = values_of(npy);
      REQUIRE(now.size() == 6 * 48);
      if (states.empty()) states = now;
      float worst = 0.0F;
      for (std::size_t i = 0; i < now.size(); ++i)
        worst = std::max(worst, std::abs(now[i] - states[i]));
      CHECK(worst <= 1e-5F);
      const Json measured = Json::parse(bench.read("measured.json"));
      const Json predicted = Json::parse(bench.read("predicted.json"));
      for (const Json& result : {measured, predicted}) {
        CHECK(result["metrics"]["ttft_s"].get<double>() > 0.0);
        CHECK(result["metrics"]["token_latency_s"]["mean"].is_null());
        CHECK(result["metrics"]["token_times_s"].empty());
      }
      for (std::size_t d = 0; d < measured["devices"].size(); ++d)
        CHECK(measured["devices"][d]["bytes_sent"] == predicted["devices"][d]["bytes_sent"]);
      bench.must({"compare", "predicted.json", "measured.json", "--out", "comparison", "--quiet"});
    }
  }
}

TEST_CASE("cli/families: each token was chosen from the logits that are written") {
  const Kitchen bench;
  make_model(bench, "gpt2");
  std::vector<float> alone;
  for (const Words& how : {Words{"--strategy", "local"}, Words{"--strategy", "tensor"},
                           Words{"--strategy", "pipeline", "--partition", "equal"}}) {
    CAPTURE(how[1]);
    Words more = how;
    more.insert(more.end(), {"--new-tokens", "5"});
    bench.must(plan_words("gpt2", more));
    bench.must({"run", "plan.json", "--weights", "gpt2", "--emulate", "--pace", "nominal",
                "--cache", "cache", "--out", "measured.json", "--quiet", "--ignore-eos", "--prompt",
                "Hello!", "--logits", "logits.npy"});
    const Json tokens = Json::parse(bench.read("measured.json"))["tokens"];
    const std::string npy = bench.read("logits.npy");
    const std::vector<float> now = values_of(npy);
    REQUIRE(now.size() % 5 == 0);
    const std::size_t vocab = now.size() / 5;
    CHECK(npy.find("'descr': '<f4', 'fortran_order': False, 'shape': (5, " + std::to_string(vocab) +
                   ")") != std::string::npos);
    for (std::size_t k = 0; k < 5; ++k) {
      const auto row = now.begin() + static_cast<std::ptrdiff_t>(k * vocab);
      const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(vocab)) - row;
      CHECK(tokens[k] == best);
    }
    if (alone.empty()) alone = now;
    REQUIRE(now.size() == alone.size());
    float worst = 0.0F;
    for (std::size_t i = 0; i < now.size(); ++i)
      worst = std::max(worst, std::abs(now[i] - alone[i]));
    CHECK(worst <= 1e-4F);
  }
  SUBCASE("without a plan, at a temperature: the first ones are the same") {
    bench.must({"run", "--weights", "gpt2", "--cache", "cache", "--quiet", "--prompt", "Hello!",
                "--new-tokens", "1", "--temperature", "5", "--logits", "logits.npy"});
    const std::vector<float> now = values_of(bench.read("logits.npy"));
    REQUIRE(now.size() * 5 == alone.size());
    for (std::size_t i = 0; i < now.size(); ++i) REQUIRE(std::abs(now[i] - alone[i]) <= 1e-4F);
  }
  SUBCASE("what has no file of its own is refused, and nothing else is written") {
    const Words run{"run",     "--weights", "gpt2",   "--cache",      "cache",
                    "--quiet", "--prompt",  "Hello!", "--new-tokens", "1"};
    const auto refused = [&](const Words& flags, int code, const std::string& text) {
      Words words = run;
      words.insert(words.end(), flags.begin(), flags.end());
      check_refused(bench, words, code, text);
    };
    refused({"--logits", "/dev/full"}, 1, "/dev/full: neither a file nor a new name");
    refused({"--logits", "nowhere/l.npy"}, 1, "folder 'nowhere' does not exist");
    refused({"--logits", "same", "--out", "same"}, 2, "same");
    bench.must({"plan", "--platform", "pair.xml", "--model", "gpt2", "--strategy", "pipeline",
                "--samples", "2", "--out", "many.json", "--quiet"});
    check_refused(bench,
                  {"run", "many.json", "--weights", "gpt2", "--emulate", "--samples", "2",
                   "--logits", "l.npy"},
                  2, "flag '--logits' has no effect with many requests");
  }
}

TEST_CASE("cli/families: what asks an encoder for tokens is refused") {
  const Kitchen bench;
  make_model(bench, "bert");
  bench.must(plan_words("bert", {"--strategy", "local"}));
  const Words run{"run", "plan.json", "--weights", "bert"};
  for (const Words& flags :
       {Words{"--new-tokens", "3"}, Words{"--ignore-eos"}, Words{"--temperature", "1"},
        Words{"--top-p", "0.5"}, Words{"--seed", "1"}, Words{"--logits", "l.npy"}}) {
    Words words = run;
    words.insert(words.end(), flags.begin(), flags.end());
    check_refused(bench, words, 2,
                  "flag '" + flags[0] + "' has no effect with bert, which is an encoder");
  }
  bench.write("text.jsonl", "{\"text\": \"The lamp is red.\"}\n");
  check_refused(bench, {"eval", "--weights", "bert", "--text", "text.jsonl"}, 1, "an encoder");
  check_refused(bench, {"eval", "--weights", "bert", "--text", "text.jsonl", "--plan", "plan.json"},
                1, "an encoder");
}

TEST_CASE("cli/families: of an encoder's requests no rate of new tokens is told") {
  const Kitchen bench;
  make_model(bench, "bert");
  const Words served{"plan",     "--platform", "pair.xml", "--model", "bert",     "--strategy",
                     "pipeline", "--samples",  "3",        "--out",   "many.json"};
  const std::string table = bench.good(served);
  CHECK(table.find("new token") == std::string::npos);
  CHECK(table.find("a request every") != std::string::npos);
  Words words = served;
  words.emplace_back("--json");
  const Json told = Json::parse(bench.good(words));
  CHECK(told["recurrent"].is_null());
  CHECK(told["bound"]["planned_s"] > 0.0);
}

TEST_CASE("cli/families: hidden states that are not finite are no result") {
  const Kitchen bench;
  make_model(bench, "bert");
  std::string weights = bench.read("bert/model.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, weights.data(), sizeof header);
  constexpr float kHuge = 3e38F;  // finite, but no sum of two of them
  for (std::size_t at = sizeof header + header; at + sizeof kHuge <= weights.size();
       at += sizeof kHuge) {
    std::memcpy(weights.data() + at, &kHuge, sizeof kHuge);
  }
  bench.write("bert/model.safetensors", weights);
  check_refused(bench, {"run", "--weights", "bert", "--prompt", "Hello!", "--hidden", "h.npy"}, 1,
                "a hidden state is not a finite number");
}

}  // namespace tandem::test::family_commands_test
