// Types in which activations travel, through the program.

#include <doctest/doctest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"
#include "tests/cli/flat3_plan.hpp"

namespace tandem::test::wire_type_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("cli/wire type: prediction and run send the same bytes, and a text's tokens stay" *
          doctest::test_suite("long")) {
  const Kitchen bench;
  std::string expected;
  for (const char* const strategy : {"tensor", "pipeline", "galaxy", "sp", "csps"}) {
    for (const char* const wire : {"f32", "f16", "bf16", "q8_0"}) {
      CAPTURE(strategy);
      CAPTURE(wire);
      bench.must(flat3_plan(strategy, {"--wire-type", wire, "--prompt-tokens", "4"}));
      bench.must(
          {"simulate", "plan.json", "--trace", "sim.trace.json", "--out", "sim.json", "--quiet"});
      const std::string text =
          bench.good({"run", "plan.json", "--weights", "tandem-tiny", "--emulate", "--pace",
                      "nominal", "--prompt", "Once upon", "--quiet"});
      if (expected.empty()) expected = text;
      // bf16 keeps 8 bits of a number: a token may turn.
      if (std::string(wire) != "bf16") CHECK(text == expected);
      const Json plan = Json::parse(bench.read("plan.json"));
      CHECK(plan.contains("wire") == (std::string(wire) != "f32"));
    }
  }
}

TEST_CASE("cli/wire type: narrow weights have narrow messages and caches, f32 ones f32") {
  const Kitchen bench;
  for (const char* const strategy : {"local", "tensor", "pipeline", "galaxy", "csps", "spread"}) {
    CAPTURE(strategy);
    const bool alone = std::string(strategy) == "local";
    bench.must(flat3_plan(strategy, {"--prompt", "Once upon", "--dtype", "f32"}));
    Json plan = Json::parse(bench.read("plan.json"));
    CHECK(!plan.contains("wire"));
    CHECK(!plan["model"].contains("cache"));
    bench.must(flat3_plan(strategy, {"--prompt", "Once upon", "--dtype", "q8_0"}));
    plan = Json::parse(bench.read("plan.json"));
    CHECK(plan.value("wire", "f32") == (alone ? "f32" : "bf16"));
    CHECK(plan["model"].value("cache", "f32") == "f16");
    bench.must({"simulate", "plan.json", "--out", "sim.json", "--quiet"});
    bench.must({"run", "plan.json", "--weights", "tandem-tiny", "--emulate", "--pace", "nominal",
                "--prompt", "Once upon", "--ignore-eos", "--out", "run.json", "--quiet"});
    const Json predicted = Json::parse(bench.read("sim.json"))["devices"];
    const Json measured = Json::parse(bench.read("run.json"))["devices"];
    REQUIRE(predicted.size() == measured.size());
    for (std::size_t d = 0; d < predicted.size(); ++d) {
      CHECK(predicted[d]["bytes_sent"] == measured[d]["bytes_sent"]);
      for (const char* const category : {"weights", "kv_cache", "activations", "buffers"})
        CHECK(predicted[d]["peak_memory_bytes"][category] ==
              measured[d]["peak_memory_bytes"][category]);
    }
  }
}

TEST_CASE("cli/wire type: what is not one, or has no effect, is refused") {
  const Kitchen bench;
  for (const auto& [strategy, wire, code, reason] :
       {std::array{"tensor", "q4_0", "1", "f32, f16, bf16, q8_0"},
        std::array{"local", "f16", "2", "which sends nothing"}}) {
    CAPTURE(strategy);
    tandem::test::check_refused(bench, flat3_plan(strategy, {"--wire-type", wire}), std::stoi(code),
                                reason);
  }
}

}  // namespace tandem::test::wire_type_command_test
