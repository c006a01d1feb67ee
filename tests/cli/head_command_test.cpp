// The LM head split over devices, through the program.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"
#include "tests/cli/flat3_plan.hpp"

namespace tandem::test::head_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

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
      bench.must(flat3_plan(strategy, {"--head", head, "--prompt-tokens", "5"}));
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

TEST_CASE("cli/head: several sequences, samples of a temperature, a scored text and logits" *
          doctest::test_suite("long")) {
  const Kitchen bench;
  std::string expected;
  std::string scores;
  for (const char* const head : {"master", "split"}) {
    CAPTURE(head);
    bench.must(flat3_plan("tensor", {"--partition", "equal", "--head", head, "--samples", "3",
                                     "--prompt-tokens", "5"}));
    const std::string text =
        bench.good({"run", "plan.json", "--weights", "tandem-tiny", "--emulate", "--pace",
                    "nominal", "--prompt", "Once upon", "--samples", "3", "--temperature", "0.8",
                    "--seed", "3", "--quiet"});
    if (expected.empty()) expected = text;
    CHECK(text == expected);
    bench.must(
        flat3_plan("tensor", {"--partition", "equal", "--head", head, "--prompt-tokens", "64"}));
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

TEST_CASE(
    "cli/head: with candidates a text stays, fewer bytes are sent, and as many as predicted") {
  const Kitchen bench;
  const Words run{"run",    "plan.json", "--weights", "tandem-tiny", "--emulate",
                  "--pace", "nominal",   "--prompt",  "Once upon",   "--quiet"};
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Words drawn{"--temperature", "4", "--top-k", "8", "--top-p", "0.99", "--seed", "3"};
  bench.must(
      flat3_plan("tensor", {"--partition", "equal", "--head", "master", "--prompt-tokens", "5"}));
  const std::string greedy = bench.good(run);
  const std::string warm = bench.good(with(run, drawn));
  CHECK(greedy != warm);
  bench.must(
      flat3_plan("tensor", {"--partition", "equal", "--head", "split", "--prompt-tokens", "5"}));
  bench.must({"simulate", "plan.json", "--out", "logits.json", "--quiet"});
  bench.must(flat3_plan("tensor", {"--partition", "equal", "--head", "split", "--candidates", "8",
                                   "--prompt-tokens", "5"}));
  CHECK(Json::parse(bench.read("plan.json"))["candidates"] == 8);
  bench.must({"simulate", "plan.json", "--out", "sim.json", "--quiet"});
  CHECK(bench.good(with(run, {"--out", "run.json"})) == greedy);
  CHECK(bench.good(with(run, drawn)) == warm);
  const Json sim = Json::parse(bench.read("sim.json"));
  CHECK(links_and_bytes(Json::parse(bench.read("run.json"))) == links_and_bytes(sim));
  const Json all = Json::parse(bench.read("logits.json"));
  // Two devices send 17 numbers for each of 6 tokens, instead of those of their rows.
  const Json plan = Json::parse(bench.read("plan.json"));
  for (const std::size_t d : {1U, 2U}) {
    const Json& rows = plan["devices"][d]["vocabulary"];
    const double fewer = 6.0 * 4.0 * (rows[1].get<double>() - rows[0].get<double>() - 17.0);
    CHECK(all["devices"][d]["bytes_sent"].get<double>() -
              sim["devices"][d]["bytes_sent"].get<double>() ==
          fewer);
  }

  // What they do not decide is refused.
  const auto refused = [&](const Words& words, const char* reason) {
    tandem::test::check_refused(bench, words, 1, reason);
  };
  refused(with(run, {"--temperature", "0.8"}), "without a top-k draws from more");
  refused(with(run, {"--temperature", "0.8", "--top-p", "0.5"}), "--candidates none");
  refused(with(run, {"--temperature", "0.8", "--top-k", "9"}), "a top-k of at most 8");
  refused(with(run, {"--repetition-penalty", "1.1"}),
          "with a repetition_penalty of 1.1 reads all logits");
  refused(with(run, {"--logits", "l.npy"}), "all logits are asked for");
  refused(
      {"eval", "--weights", "tandem-tiny", "--plan", "plan.json", "--emulate", "--out", "x.json"},
      "a score is of all logits");
  bench.write("requests.jsonl",
              R"({"id": "a", "arrival_s": 0, "prompt_ids": [1, 2], "new_tokens": 2, )"
              R"("temperature": 0.8, "top_k": 9})");
  refused({"run", "plan.json", "--weights", "tandem-tiny", "--emulate", "--pace", "nominal",
           "--workload", "requests.jsonl", "--quiet"},
          "request 'a' at temperature 0.8, top-k 9, draws from more");
}

TEST_CASE("cli/head: what cannot be split is refused, and what is split says so") {
  const Kitchen bench;
  tandem::test::check_refused(bench, flat3_plan("sp", {"--head", "split"}), 1, "--head master");
  tandem::test::check_refused(bench, flat3_plan("tensor", {"--head", "all"}), 1, "master, split");
  tandem::test::check_refused(bench, flat3_plan("tensor", {"--candidates", "4"}), 2,
                              "--head split");
  tandem::test::check_refused(
      bench, flat3_plan("tensor", {"--head", "split", "--candidates", "1025"}), 1, "1 to 1024");
  Words words = flat3_plan("tensor", {"--head", "split"});
  words.erase(words.end() - 3);  // --quiet
  const std::string table = bench.good(words);
  CHECK(table.find("LM head") != std::string::npos);
  CHECK(table.find("stay at the master") != std::string::npos);
}

}  // namespace tandem::test::head_command_test
