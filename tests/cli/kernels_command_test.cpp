// The reference kernels through the program: the tokens and logits of the tuned ones.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::kernels_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

// Values of a .npy file of f32, after its header.
std::vector<float> numbers_in(const std::string& npy) {
  const std::size_t begin = npy.find('\n') + 1;
  REQUIRE(npy.starts_with("\x93NUMPY"));
  std::vector<float> values((npy.size() - begin) / sizeof(float));
  std::memcpy(values.data(), npy.data() + begin, values.size() * sizeof(float));
  return values;
}

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

struct Made {
  std::vector<std::size_t> tokens;
  std::vector<float> logits;  // [tokens, vocabulary]
  Json environment;
};

Made run(const Kitchen& bench, const Words& words, const std::string& kernels) {
  bench.must(joined(words, {"--kernels", kernels, "--logits", "logits.npy", "--out", "run.json",
                            "--ignore-eos", "--quiet"}));
  const Json result = Json::parse(bench.read("run.json"));
  return {result["tokens"].get<std::vector<std::size_t>>(), numbers_in(bench.read("logits.npy")),
          result["environment"]};
}

// The same tokens up to a near tie, from logits within `relative` times the largest one.
void check_same(const Made& tuned, const Made& eigen, double relative) {
  REQUIRE(tuned.tokens.size() == eigen.tokens.size());
  REQUIRE(tuned.logits.size() == eigen.logits.size());
  double largest = 0.0;
  for (const float logit : tuned.logits) largest = std::max(largest, std::abs(double{logit}));
  const double limit = relative * largest;
  const std::size_t vocabulary = tuned.logits.size() / tuned.tokens.size();
  for (std::size_t i = 0; i < tuned.tokens.size(); ++i) {
    CAPTURE(i);
    double worst = 0.0;
    for (std::size_t k = i * vocabulary; k < (i + 1) * vocabulary; ++k) {
      const double error = std::abs(double{tuned.logits[k]} - double{eigen.logits[k]});
      if (!(error <= worst)) worst = error;
    }
    CHECK(worst <= limit);
    const std::size_t token = tuned.tokens[i];
    if (eigen.tokens[i] == token) continue;
    const std::size_t row = i * vocabulary;
    CHECK(double{tuned.logits[row + token]} - double{tuned.logits[row + eigen.tokens[i]]} <=
          2.0 * limit);
    return;  // the texts go on from other tokens
  }
}

// Sums of `terms` products in f32 and their rounding, each relative to the largest logit; in 8 bits
// the last bit of an input may move it by a step, 1/127 of the largest of its block, in each layer.
double limit_of(const std::string& format, double terms, double layers) {
  const bool integers =
      format.starts_with("q8_0") || format.starts_with("q4") || format.ends_with("_k");
  return integers ? layers / 127.0 : 0x1p-23 * terms;
}

constexpr double kTinyTerms = 768.0;  // tandem-tiny's longest sum
constexpr double kTinyLayers = 4.0;

}  // namespace

TEST_CASE("cli/kernels: strategies and formats give the tuned kernels' tokens and logits") {
  const Kitchen bench;
  const struct {
    const char* strategy;
    const char* format;
    Words more;
  } cases[] = {{"local", "f32", {}},
               {"local", "q4_k", {}},
               {"tensor", "f32", {}},
               {"tensor", "q8_0", {}},
               {"pipeline", "bf16", {}},
               {"pipeline", "q4_0", {}},
               {"galaxy", "f16", {}},
               {"galaxy", "q5_k", {}},
               {"sp", "f32", {}},
               {"csps", "q5_1", {}},
               {"tensor", "f32", {"--cache-type", "f16"}},
               {"pipeline", "q6_k", {}}};
  for (const auto& [strategy, format, more] : cases) {
    CAPTURE(strategy);
    CAPTURE(format);
    // Roundings of messages and caches would turn for a difference in the last bit.
    Words types = more.empty() ? Words{"--cache-type", "f32"} : more;
    if (std::string(strategy) != "local") types.insert(types.end(), {"--wire-type", "f32"});
    bench.must(joined(
        {"plan", "--model", "tandem-tiny", "--platform", "flat3", "--strategy", strategy, "--dtype",
         format, "--prompt-tokens", "9", "--new-tokens", "8", "--out", "plan.json", "--quiet"},
        types));
    const Words words{"run",    "plan.json", "--weights", "tandem-tiny",     "--emulate",
                      "--pace", "nominal",   "--prompt",  "Once upon a time"};
    const Made tuned = run(bench, words, "tuned");
    const Made eigen = run(bench, words, "eigen");
    check_same(tuned, eigen, limit_of(format, kTinyTerms, kTinyLayers));
    // Emulated devices report theirs, which are the master's.
    CHECK(tuned.environment["kernels"] == "tuned");
    CHECK(eigen.environment["kernels"] == "eigen");
    CHECK(eigen.environment["instruction_sets"].get<std::string>().starts_with("Eigen 3."));
    CHECK(!eigen.environment.contains("integer_kernels"));
    CHECK(tuned.logits != eigen.logits);  // they were other kernels
  }
}

TEST_CASE("cli/kernels: layer norms, biases, learned positions and other activation functions") {
  const Kitchen bench;
  bench.write("gpt2.json", R"({"model_type": "gpt2", "n_layer": 3, "n_embd": 48, "n_head": 4,
                               "n_inner": 100, "vocab_size": 300, "n_positions": 128})");
  bench.write("opt.json",
              R"({"model_type": "opt", "num_hidden_layers": 3, "hidden_size": 48,
                  "num_attention_heads": 4, "ffn_dim": 100, "vocab_size": 300,
                  "max_position_embeddings": 128, "word_embed_proj_dim": 48,
                  "do_layer_norm_before": true, "activation_function": "relu"})");
  bench.write("gemma.json",
              R"({"model_type": "gemma2", "num_hidden_layers": 4, "hidden_size": 48,
                  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12,
                  "intermediate_size": 100, "vocab_size": 300, "max_position_embeddings": 128,
                  "sliding_window": 4, "query_pre_attn_scalar": 12,
                  "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
                  "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6,
                  "rope_theta": 10000.0, "tie_word_embeddings": true})");
  for (const std::string model : {"gpt2", "opt", "gemma"}) {
    CAPTURE(model);
    bench.must({"model", "random", "--config", model + ".json", "--out", model, "--quiet"});
    const Words words{"run", "--weights", model, "--prompt", "Hello there!", "--new-tokens", "6"};
    check_same(run(bench, words, "tuned"), run(bench, words, "eigen"), limit_of("f32", 100.0, 3.0));
  }
}

TEST_CASE("cli/kernels: a GGUF file with a mix of formats") {
  const Kitchen bench;
  bench.must({"model", "convert", "--weights", "tandem-tiny", "--dtype", "q4_k_m", "--out",
              "tiny.gguf", "--quiet"});
  const Words one{"run",           "--weights",    "tiny.gguf", "--raw-prompt", "--prompt",
                  "The old pilot", "--new-tokens", "8",         "--cache-type", "f32"};
  check_same(run(bench, one, "tuned"), run(bench, one, "eigen"),
             limit_of("q4_k", kTinyTerms, kTinyLayers));
}

TEST_CASE("cli/kernels: each worker has its own, and the result names those that differ") {
  const Kitchen bench;
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
  bench.plan();
  for (const std::string kernels : {"tuned", "eigen"}) {
    const Outcome hosts = bench.shell(R"sh(
        "$TANDEM" worker --listen 127.0.0.1:0 --once --kernels eigen --cache worker > worker.log &
        for i in $(seq 400); do grep -q 'listening on' worker.log && break; sleep 0.05; done
        echo "sofa $(sed -n 's/.*listening on \(127[0-9.:]*\).*/\1/p' worker.log)" > hosts
        "$TANDEM" run plan.json --weights tiny --hosts hosts --cache cache --prompt Hello \
          --ignore-eos --out run.json --quiet --kernels )sh" +
                                      kernels + " && wait");
    REQUIRE_MESSAGE(hosts.code == 0, hosts.err);
    const Json environment = Json::parse(bench.read("run.json"))["environment"];
    CHECK(environment["kernels"] == (kernels == "tuned" ? "tuned; eigen on 'sofa'" : "eigen"));
  }
}

TEST_CASE("cli/kernels: eval names the kernels, and an unknown set is rejected") {
  const Kitchen bench;
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
  bench.write("text.jsonl", "{\"text\": \"Once upon a time there was\"}\n");
  const Words eval{"eval", "--weights", "tiny", "--text", "text.jsonl", "--json"};
  const Json tuned = Json::parse(bench.good(eval));
  const Json eigen = Json::parse(bench.good(joined(eval, {"--kernels", "eigen"})));
  CHECK(tuned["environment"]["kernels"] == "tuned");
  CHECK(eigen["environment"]["kernels"] == "eigen");
  CHECK(eigen["text"]["bits"].get<double>() ==
        doctest::Approx(tuned["text"]["bits"].get<double>()).epsilon(1e-5));
  for (const Words& words :
       {eval, Words{"run", "--weights", "tiny", "--prompt", "Hello", "--quiet"},
        Words{"worker", "--listen", "127.0.0.1:0", "--once"}}) {
    for (const char* const set : {"eagle", "plain", "tuned,eigen"})
      check_refused(bench, joined(words, {"--kernels", set}), 1, "known: tuned, eigen");
  }
}

}  // namespace tandem::test::kernels_command_test
