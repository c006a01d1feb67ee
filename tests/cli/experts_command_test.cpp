// Models with experts: planned, simulated and inspected; refused where they would be executed.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::experts_command_test {
namespace {

using Json = nlohmann::json;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kMixtral = R"({"model_type": "mixtral", "num_hidden_layers": 3,
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "vocab_size": 320, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false,
    "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": null})";

std::vector<std::string> plan(const std::string& strategy) {
  return {"plan",       "--platform", "pair.xml",        "--model", "moe.json",
          "--strategy", strategy,     "--prompt-tokens", "8",       "--new-tokens",
          "4",          "--out",      strategy + ".json"};
}

}  // namespace

TEST_CASE("cli/experts: a plan says which parameters a token uses, and can be simulated") {
  const Kitchen bench;
  bench.write("moe.json", kMixtral);
  for (const char* const strategy : {"local", "tensor", "pipeline", "galaxy"}) {
    CAPTURE(strategy);
    const std::string text = bench.good(plan(strategy));
    CHECK(has(text, "2 of 8 experts of 96 columns in each of 3 layers"));
    // 8 (1 - (6/8)^8) = 7.2
    CHECK(has(text, "experts of a layer that 8 rows use: 7.2 expected"));
    CHECK(has(text, "cannot be run yet"));
    bench.must({"simulate", std::string(strategy) + ".json", "--out", "predicted.json", "--quiet"});
  }
  const Json inspected = Json::parse(bench.good({"model", "inspect", "moe.json", "--json"}));
  // Per layer 64 96 3 numbers an expert; 6 of 8 are not used.
  CHECK(inspected["parameters"].get<double>() - inspected["active_parameters"].get<double>() ==
        3.0 * 6 * 64 * 96 * 3);
  CHECK(inspected["experts"]["count"] == 8);
  CHECK(inspected["latent_attention"].is_null());
}

TEST_CASE("cli/experts: what executes refuses them by name") {
  const Kitchen bench;
  bench.write("moe.json", kMixtral);
  const std::vector<std::vector<std::string>> refused{
      {"model", "random", "--config", "moe.json", "--out", "weights"},
      {"profile", "--model", "moe.json", "--seconds", "0.1", "--disk", "none", "--out", "p.json"}};
  for (const auto& words : refused) {
    const Outcome outcome = bench.run(words);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 1);
    CHECK(has(outcome.err, "model 'moe': has 8 experts a layer"));
    CHECK(has(outcome.err, "planned and simulated only"));
  }
  bench.write("folder/config.json", kMixtral);
  const Outcome run = bench.run({"run", "--weights", "folder", "--prompt-ids", "1,2"});
  CHECK(run.code == 1);
  CHECK(has(run.err, "has 8 experts a layer"));
  const Outcome csps = bench.run(plan("csps"));
  CHECK(csps.code == 1);
  CHECK(has(csps.err, "strategy 'csps': replicates weights"));
}

TEST_CASE("cli/experts: formats that are only planned") {
  const Kitchen bench;
  bench.write("moe.json", kMixtral);
  for (const char* const format : {"fp8", "mxfp4", "nvfp4"}) {
    CAPTURE(format);
    std::vector<std::string> words = plan("pipeline");
    words.insert(words.end(), {"--dtype", format});
    CHECK(has(bench.good(words), std::string("moe in ") + format));
    CHECK(bench.run({"eval", "--weights", "tiny", "--dtype", format}).code != 0);
  }
}

}  // namespace tandem::test::experts_command_test
