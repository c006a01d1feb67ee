// Types of the key/value cache, through the program.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/transformer/cache_format.hpp"
#include "tests/cli/cli_program.hpp"
#include "tests/cli/flat3_plan.hpp"

namespace tandem::test::cache_type_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

double kv_bytes(const Json& result) {
  double bytes = 0.0;
  for (const Json& device : result["devices"])
    bytes += device["peak_memory_bytes"]["kv_cache"].get<double>();
  return bytes;
}

}  // namespace

TEST_CASE("cli/cache type: prediction and run keep the same bytes, each type's, for one text") {
  const Kitchen bench;
  for (const char* const strategy : {"tensor", "pipeline", "galaxy", "sp", "csps", "spread"}) {
    CAPTURE(strategy);
    std::string expected;
    double whole = 0.0;
    for (const model::CacheFormat format : model::kCacheFormats) {
      const std::string type(to_string(format));
      CAPTURE(type);
      bench.must(flat3_plan(strategy, {"--cache-type", type, "--prompt", "Once upon"}));
      CHECK(Json::parse(bench.read("plan.json"))["model"].contains("cache") == (type != "f32"));
      bench.must({"simulate", "plan.json", "--out", "sim.json", "--quiet"});
      const std::string text =
          bench.good({"run", "plan.json", "--weights", "tandem-tiny", "--emulate", "--pace",
                      "nominal", "--prompt", "Once upon", "--out", "run.json", "--quiet"});
      const Json simulated = Json::parse(bench.read("sim.json"));
      const Json measured = Json::parse(bench.read("run.json"));
      const double predicted = kv_bytes(simulated);
      CHECK(kv_bytes(measured) == predicted);
      for (std::size_t d = 0; d < measured["devices"].size(); ++d)
        CHECK(measured["devices"][d]["bytes_sent"] == simulated["devices"][d]["bytes_sent"]);
      if (expected.empty()) {
        expected = text;
        whole = predicted;
      }
      CHECK(text == expected);
      CHECK(predicted == whole * model::cache_number_bytes(format) / 4.0);
    }
  }
}

TEST_CASE("cli/cache type: a run without a plan, a model's sizes, and what is refused") {
  const Kitchen bench;
  const Words alone{"run",       "--weights",    "tandem-tiny", "--prompt",
                    "Once upon", "--new-tokens", "6",           "--quiet"};
  for (const char* const type : {"f16", "q8_0"}) {
    Words narrow = alone;
    narrow.insert(narrow.end(), {"--cache-type", type});
    CHECK(bench.good(narrow) == bench.good(alone));
  }
  const Json sizes = Json::parse(bench.good({"model", "inspect", "tandem-tiny", "--json"}));
  const auto bytes = sizes["kv_bytes_per_token"].get<double>();
  CHECK(bytes == 2.0 * sizes["kv_bytes_per_token_f16"].get<double>());
  CHECK(bytes == 128.0 / 34.0 * sizes["kv_bytes_per_token_q8_0"].get<double>());
  // Heads of 80 numbers are not whole blocks.
  const Json odd = Json::parse(bench.good({"model", "inspect", "opt-xl", "--json"}));
  CHECK(odd["kv_bytes_per_token_f16"].is_number());
  CHECK(odd["kv_bytes_per_token_q8_0"].is_null());
  tandem::test::check_refused(
      bench, {"plan", "--model", "opt-xl", "--platform", "flat3", "--cache-type", "q8_0"}, 1,
      "head_dim is 80, expected a multiple of 32");
  tandem::test::check_refused(bench, flat3_plan("tensor", {"--cache-type", "q4_0"}), 1,
                              "f32, f16, q8_0");
  bench.must(flat3_plan("local", {"--prompt-tokens", "4"}));
  tandem::test::check_refused(
      bench, {"run", "plan.json", "--weights", "tandem-tiny", "--cache-type", "f16"}, 2,
      "cache-type");
  tandem::test::check_refused(
      bench, {"eval", "--weights", "tandem-tiny", "--plan", "plan.json", "--cache-type", "f16"}, 2,
      "cache-type");
  for (const Words& types : {Words{"--cache-type", "f32"}, Words{"--cache-type", "q4_0"}}) {
    Words words{"profile", "--seconds", "0.1"};
    words.insert(words.end(), types.begin(), types.end());
    tandem::test::check_refused(bench, words, 2, "f32 is measured in any case");
  }
  tandem::test::check_refused(
      bench, {"profile", "--cache-type", "q8_0", "--cache-type", "q8_0", "--seconds", "0.1"}, 2,
      "q8_0 is given twice");
}

}  // namespace tandem::test::cache_type_command_test
