// Types of the key/value cache, through the program.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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

TEST_CASE("cli/cache type: prediction and run keep the same bytes, half of f32's, for one text") {
  const Kitchen bench;
  for (const char* const strategy : {"tensor", "pipeline", "galaxy", "sp", "csps"}) {
    CAPTURE(strategy);
    std::string expected;
    double whole = 0.0;
    for (const char* const type : {"f32", "f16"}) {
      CAPTURE(type);
      bench.must(flat3_plan(strategy, {"--cache-type", type, "--prompt-tokens", "4"}));
      CHECK(Json::parse(bench.read("plan.json"))["model"].contains("cache") ==
            (std::string(type) == "f16"));
      bench.must({"simulate", "plan.json", "--out", "sim.json", "--quiet"});
      const std::string text =
          bench.good({"run", "plan.json", "--weights", "tandem-tiny", "--emulate", "--pace",
                      "nominal", "--prompt", "Once upon", "--out", "run.json", "--quiet"});
      const double predicted = kv_bytes(Json::parse(bench.read("sim.json")));
      CHECK(kv_bytes(Json::parse(bench.read("run.json"))) == predicted);
      if (expected.empty()) {
        expected = text;
        whole = predicted;
        continue;
      }
      CHECK(text == expected);
      CHECK(2.0 * predicted == whole);
    }
  }
}

TEST_CASE("cli/cache type: a run without a plan, a model's sizes, and what is refused") {
  const Kitchen bench;
  const Words alone{"run",       "--weights",    "tandem-tiny", "--prompt",
                    "Once upon", "--new-tokens", "6",           "--quiet"};
  Words half = alone;
  half.insert(half.end(), {"--cache-type", "f16"});
  CHECK(bench.good(half) == bench.good(alone));
  const Json sizes = Json::parse(bench.good({"model", "inspect", "tandem-tiny", "--json"}));
  CHECK(sizes["kv_bytes_per_token"].get<double>() ==
        2.0 * sizes["kv_bytes_per_token_f16"].get<double>());
  tandem::test::check_refused(bench, flat3_plan("tensor", {"--cache-type", "q8_0"}), 1, "f32, f16");
  bench.must(flat3_plan("local", {"--prompt-tokens", "4"}));
  tandem::test::check_refused(
      bench, {"run", "plan.json", "--weights", "tandem-tiny", "--cache-type", "f16"}, 2,
      "cache-type");
  tandem::test::check_refused(
      bench, {"eval", "--weights", "tandem-tiny", "--plan", "plan.json", "--cache-type", "f16"}, 2,
      "cache-type");
  tandem::test::check_refused(bench, {"profile", "--cache-type", "f32", "--seconds", "0.1"}, 2,
                              "f32 is measured in any case");
}

}  // namespace tandem::test::cache_type_command_test
