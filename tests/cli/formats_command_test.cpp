// Weights in formats through the program: what is asked of models that are there and of those that
// are not, and what is refused.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::formats_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Words plan_words(const std::string& model, const std::string& out, const Words& more) {
  Words words{"plan", "--platform",      "pair.xml", "--model",      model, "--out",
              out,    "--prompt-tokens", "5",        "--new-tokens", "4",   "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("cli/formats: '--dtype' plans less memory for a model that is not there") {
  const Kitchen bench;
  double before = 1e18;
  for (const char* const format : {"f32", "bf16", "q8_0", "q4_0"}) {
    CAPTURE(format);
    bench.must(plan_words("tinyllama-1.1b", "plan.json", {"--dtype", format}));
    const Json plan = Json::parse(bench.read("plan.json"));
    double weights = 0.0;
    for (const Json& device : plan["devices"])
      weights += device["memory_bytes"]["weights"].get<double>();
    CHECK(weights < 0.6 * before);
    before = weights;
    CHECK(plan["model"].contains("weights") == (std::string(format) != "f32"));
    bench.must({"simulate", "plan.json", "--out", "predicted.json", "--quiet"});
  }
  // The same plan as without the flag.
  bench.must(plan_words("tinyllama-1.1b", "f32.json", {"--dtype", "f32"}));
  bench.must(plan_words("tinyllama-1.1b", "none.json", {}));
  CHECK(bench.read("f32.json") == bench.read("none.json"));
  const Outcome unknown = bench.run(plan_words("tinyllama-1.1b", "no.json", {"--dtype", "q5_z"}));
  CHECK(unknown.code != 0);
  CHECK(has(unknown.err, "q5_z"));
  CHECK(!bench.has("no.json"));
  const Json inspected = Json::parse(bench.good({"model", "inspect", "tinyllama-1.1b", "--json"}));
  CHECK(inspected["memory_bytes"]["q4_0"].get<double>() <= before);  // both devices have norms
  CHECK(inspected["memory_bytes"]["q4_0"].get<double>() > 0.99 * before);
}

TEST_CASE("cli/formats: rows that are no whole blocks, and unknown rates, are refused by name") {
  const Kitchen bench;
  bench.write("odd.json", R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 48,
      "num_attention_heads": 4, "head_dim": 12, "intermediate_size": 64, "vocab_size": 300,
      "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": false})");
  const Outcome odd = bench.run(plan_words("odd.json", "no.json", {"--dtype", "q8_0"}));
  CHECK(odd.code == 1);
  CHECK(has(odd.err, "expected a multiple of 32 for weights in q8_0"));
  const Outcome rates = bench.run(
      plan_words("tiny.json", "no.json", {"--dtype", "bf16", "--profile", "profile.json"}));
  CHECK(rates.code == 1);
  CHECK(has(rates.err, "tandem profile --dtype bf16"));
  CHECK(!bench.has("no.json"));
  bench.must({"profile", "--model", "tiny.json", "--seconds", "0.2", "--disk", "none", "--dtype",
              "bf16", "--out", "both.json", "--quiet"});
  bench.must(plan_words("tiny.json", "yes.json", {"--dtype", "bf16", "--profile", "both.json"}));
  CHECK(bench.run({"profile", "--dtype", "f32", "--disk", "none"}).code == 2);
  CHECK(bench.run({"profile", "--dtype", "q8_0", "--dtype", "all", "--disk", "none"}).code == 2);
}

TEST_CASE("cli/formats: a run keeps the plan's formats on all devices, and says what it rounds") {
  const Kitchen bench;
  std::vector<std::string> texts;
  for (const char* const format : {"f32", "f16", "q8_0", "q4_0"}) {
    CAPTURE(format);
    bench.must(plan_words("tandem-tiny", "plan.json",
                          {"--dtype", format, "--wire-type", "f32", "--cache-type", "f32"}));
    const Words run{"run",       "plan.json",     "--weights", "tandem-tiny",
                    "--emulate", "--prompt",      "Once upon", "--cache",
                    "cache",     "--allow-drift", "--out",     "run.json"};
    const Outcome outcome = bench.run(run);
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    const bool rounds = format[0] == 'q';  // it is stored as f16
    CHECK(has(outcome.err, "which changes results") == rounds);
    CHECK(has(outcome.err, std::string("f16 to ") + format) == rounds);
    texts.push_back(outcome.out);
    const Json measured = Json::parse(bench.read("run.json"));
    const Json plan = Json::parse(bench.read("plan.json"));
    for (std::size_t d = 0; d < plan["devices"].size(); ++d) {
      const double wanted = plan["devices"][d]["memory_bytes"]["weights"].get<double>();
      const double got = measured["devices"][d]["peak_memory_bytes"]["weights"].get<double>();
      CHECK(got >= wanted);
      CHECK(got <= wanted + 4096.0 * 10);
    }
    const Outcome twice =
        bench.run({"run", "plan.json", "--weights", "tandem-tiny", "--dtype", "f32"});
    CHECK(twice.code == 2);
    // The same device by device as alone.
    const Outcome alone =
        bench.run({"run", "--weights", "tandem-tiny", "--prompt", "Once upon", "--new-tokens", "4",
                   "--dtype", format, "--cache", "cache", "--cache-type", "f32"});
    CHECK(alone.code == 0);
    CHECK(alone.out == outcome.out);
  }
  CHECK(texts[0] == texts[1]);
}

TEST_CASE("cli/formats: mixes and K formats are planned, written and run, the same on any devices" *
          doctest::test_suite("long")) {
  const Kitchen bench;
  bench.write("long.json", R"({"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 256,
      "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32, "intermediate_size": 768,
      "vocab_size": 300, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
      "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2})");
  bench.write("ids.txt", "1 17 5 9 30 2");
  bench.must({"model", "random", "--config", "long.json", "--out", "long", "--quiet"});
  for (const char* const format : {"q4_k", "q6_k", "q4_k_m", "q5_k_m"}) {
    CAPTURE(format);
    bench.must({"model", "convert", "--weights", "long", "--out", "long.gguf", "--dtype", format,
                "--quiet"});
    const Words prompt{"--prompt-ids", "ids.txt", "--cache", "cache", "--new-tokens", "4"};
    const auto run = [&](Words words) {
      words.insert(words.end(), prompt.begin(), prompt.end());
      const Outcome outcome = bench.run(words);
      CAPTURE(outcome.err);
      REQUIRE(outcome.code == 0);
      return outcome.out;
    };
    const std::string alone = run({"run", "--weights", "long.gguf", "--cache-type", "f32"});
    CHECK(run({"run", "--weights", "long", "--dtype", format, "--cache-type", "f32"}) == alone);
    bench.must({"plan", "--platform", "pair.xml", "--model", "long.gguf", "--partition", "equal",
                "--wire-type", "f32", "--cache-type", "f32", "--prompt-tokens", "6", "--new-tokens",
                "4", "--out", "plan.json", "--quiet"});
    const Outcome both =
        bench.run({"run", "plan.json", "--weights", "long.gguf", "--emulate", "--prompt-ids",
                   "ids.txt", "--cache", "cache", "--allow-drift", "--out", "run.json"});
    CAPTURE(both.err);
    REQUIRE(both.code == 0);
    CHECK(both.out == alone);
    // Half of the heads is half of a block: both devices store it whole, and the plan says so.
    const Json measured = Json::parse(bench.read("run.json"));
    const Json plan = Json::parse(bench.read("plan.json"));
    for (std::size_t d = 0; d < plan["devices"].size(); ++d) {
      const double wanted = plan["devices"][d]["memory_bytes"]["weights"].get<double>();
      const double got = measured["devices"][d]["peak_memory_bytes"]["weights"].get<double>();
      CHECK(got >= wanted);
      CHECK(got <= wanted + 4096.0 * 20);
    }
  }
}

TEST_CASE("cli/formats: eval tells what rounding costs" * doctest::test_suite("long")) {
  const Kitchen bench;
  std::vector<double> bits;
  for (const char* const format : {"f32", "f16", "q8_0", "q4_0"}) {
    const Json scores =
        Json::parse(bench.good({"eval", "--weights", "tandem-tiny", "--dtype", format, "--limit",
                                "2", "--cache", "cache", "--json"}));
    bits.push_back(scores["text"]["bits_per_byte"].get<double>());
  }
  CHECK(bits[1] == doctest::Approx(bits[0]).epsilon(1e-5));
  CHECK(bits[2] == doctest::Approx(bits[0]).epsilon(0.01));
  CHECK(bits[3] == doctest::Approx(bits[0]).epsilon(0.2));
  CHECK(bits[2] != bits[0]);
}

}  // namespace tandem::test::formats_command_test
