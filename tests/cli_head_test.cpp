// The LM head split over devices, through the program.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli_program.hpp"

namespace {

using Json = nlohmann::json;
using tandem::test::Kitchen;
using tandem::test::replaced;
using Words = std::vector<std::string>;

Words plan_words(const std::string& strategy, const Words& more) {
  Words words{"plan",   "--model",      "tandem-tiny", "--platform", "flat3",     "--strategy",
              strategy, "--new-tokens", "6",           "--out",      "plan.json", "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json links_and_bytes(const Json& result) {
  Json bytes;
  for (const Json& device : result["devices"]) bytes.push_back(device["bytes_sent"]);
  return bytes;
}

}  // namespace

TEST_CASE("cli/head: split, a text stays, and prediction and run send the same bytes") {
  const Kitchen bench;
  std::string expected;
  for (const char* const strategy : {"tensor", "galaxy", "csps", "pipeline"}) {
    for (const char* const head : {"master", "split"}) {
      CAPTURE(strategy);
      CAPTURE(head);
      bench.must(plan_words(strategy, {"--head", head, "--prompt-tokens", "5"}));
      const Json plan = Json::parse(bench.read("plan.json"));
      for (const Json& device : plan["devices"])
        CHECK(device.contains("vocabulary") == (std::string(head) == "split"));
      bench.must({"simulate", "plan.json", "--out", "sim.json", "--quiet"});
      bench.must(
          {"simulate", "plan.json", "--out", "formula.json", "--evaluator", "analytic", "--quiet"});
      const std::string text =
          bench.good({"run", "plan.json", "--weights", "tandem-tiny", "--emulate", "--pace",
                      "nominal", "--prompt", "Once upon", "--out", "run.json", "--quiet"});
      if (expected.empty()) expected = text;
      CHECK(text == expected);
      const Json run = Json::parse(bench.read("run.json"));
      CHECK(links_and_bytes(run) == links_and_bytes(Json::parse(bench.read("sim.json"))));
      CHECK(links_and_bytes(run) == links_and_bytes(Json::parse(bench.read("formula.json"))));
    }
  }
}

TEST_CASE("cli/head: several sequences, samples of a temperature, a scored text and logits") {
  const Kitchen bench;
  std::string expected;
  std::string scores;
  for (const char* const head : {"master", "split"}) {
    CAPTURE(head);
    bench.must(plan_words("tensor", {"--head", head, "--samples", "3", "--prompt-tokens", "5"}));
    const std::string text =
        bench.good({"run", "plan.json", "--weights", "tandem-tiny", "--emulate", "--pace",
                    "nominal", "--prompt", "Once upon", "--samples", "3", "--temperature", "0.8",
                    "--seed", "3", "--quiet"});
    if (expected.empty()) expected = text;
    CHECK(text == expected);
    bench.must(plan_words("tensor", {"--head", head, "--prompt-tokens", "64"}));
    bench.must({"eval", "--weights", "tandem-tiny", "--plan", "plan.json", "--emulate", "--limit",
                "1", "--quiet", "--out", "scores.json"});
    const std::string said = Json::parse(bench.read("scores.json"))["text"].dump();
    CHECK(said.find("bits_per_byte") != std::string::npos);
    if (scores.empty()) scores = said;
    CHECK(said == scores);
    bench.must({"run", "plan.json", "--weights", "tandem-tiny", "--emulate", "--pace", "nominal",
                "--prompt", "Once upon", "--logits", std::string(head) + ".npy", "--quiet"});
  }
  CHECK(bench.read("master.npy") == bench.read("split.npy"));
}

TEST_CASE("cli/head: what cannot be split is refused, and what is split says so") {
  const Kitchen bench;
  tandem::test::check_refused(bench, plan_words("sp", {"--head", "split"}), 1, "--head master");
  tandem::test::check_refused(bench, plan_words("tensor", {"--head", "all"}), 1, "master, split");
  Words words = plan_words("tensor", {"--head", "split"});
  words.erase(words.end() - 3);  // --quiet
  const std::string table = bench.good(words);
  CHECK(table.find("LM head") != std::string::npos);
  CHECK(table.find("stay at the master") != std::string::npos);
}
