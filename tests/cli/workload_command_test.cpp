// tandem workload, and policy sarathi, as a user has them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::workload_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

Words and_more(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

constexpr std::size_t kBudget = 5;

// Requests that are all there from the beginning, so that no clock decides over steps.
constexpr const char* kTogether =
    R"({"id": "a", "arrival_s": 0, "prompt_ids": [1, 2, 3], "new_tokens": 6, "ignore_eos": true})"
    "\n"
    R"({"id": "b", "arrival_s": 0, "prompt_ids": [4, 5, 6, 7, 8, 9, 3, 2, 1], "new_tokens": 4, "ignore_eos": true})"
    "\n"
    R"({"id": "c", "arrival_s": 0, "prompt_ids": [9, 8, 7, 6, 5, 4, 3], "new_tokens": 2, "ignore_eos": true})"
    "\n";

}  // namespace

TEST_CASE("cli/workload: the same seed draws the same requests, which are planned and predicted") {
  const Kitchen bench;
  const Words words{"workload", "--requests",   "6", "--rate",  "20",       "--prompt-tokens",
                    "4:9",      "--new-tokens", "3", "--model", "tiny.json"};
  const std::string text = bench.good(words);
  CHECK(bench.good(and_more(words, {"--seed", "1"})) == text);
  CHECK(bench.good(and_more(words, {"--seed", "2"})) != text);
  CHECK(bench.good(and_more(words, {"--out", "drawn.jsonl"})).empty());
  CHECK(bench.read("drawn.jsonl") == text);
  const std::vector<Json> lines = lines_of(text);
  REQUIRE(lines.size() == 6);
  for (const Json& line : lines) CHECK(line["new_tokens"] == 3);
  for (const Json& line : lines_of(bench.good(and_more(words, {"--ids"}))))
    CHECK(line["prompt_ids"].is_array());

  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--workload", "drawn.jsonl",
              "--policy", "sarathi", "--chunk", "4", "--out", "served.json", "--quiet"});
  const Json result =
      Json::parse(bench.good({"simulate", "served.json", "--workload", "drawn.jsonl", "--policy",
                              "sarathi", "--chunk", "4", "--json"}));
  CHECK(result["requests"].size() == 6);
  for (const Json& step : result["schedule"]) {
    std::int64_t rows = 0;
    for (const Json& segment : step["segments"]) rows += segment[2].get<std::int64_t>();
    CHECK(rows <= 4);
  }
}

TEST_CASE("cli/workload: lengths of a data set, scaled") {
  const Kitchen bench;
  const auto longest = [&](const Words& more) {
    std::int64_t tokens = 0;
    for (const Json& line : lines_of(bench.good(and_more(
             {"workload", "--requests", "40", "--rate", "1", "--lengths", "needlebench"}, more))))
      tokens = std::max(tokens, line["prompt_tokens"].get<std::int64_t>());
    return tokens;
  };
  CHECK(longest({}) > 113000);
  CHECK(longest({"--scale", "0.001"}) < 10000);
}

TEST_CASE("cli/workload: steps of sarathi are predicted as they are run, tokens as alone") {
  const Kitchen bench;
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
  bench.write("together.jsonl", kTogether);
  const Words served{"--workload", "together.jsonl", "--quiet"};
  const std::string budget = std::to_string(kBudget);
  bench.must(and_more({"plan", "--platform", "pair.xml", "--model", "tiny", "--strategy", "tensor",
                       "--policy", "sarathi", "--chunk", budget, "--out", "served.json"},
                      served));
  bench.must(and_more({"simulate", "served.json", "--policy", "sarathi", "--chunk", budget, "--out",
                       "predicted.json"},
                      served));
  const auto run = [&](const Words& policy, const std::string& out) {
    static_cast<void>(
        bench.good(and_more(and_more({"run", "served.json", "--weights", "tiny", "--cache", "cache",
                                      "--emulate", "--pace", "nominal", "--out", out},
                                     served),
                            policy)));
    return Json::parse(bench.read(out));
  };
  const Json measured = run({"--policy", "sarathi", "--chunk", budget}, "measured.json");
  const Json predicted = Json::parse(bench.read("predicted.json"));
  CHECK(measured["environment"]["policy"] == "sarathi");
  REQUIRE(measured["schedule"].size() == predicted["schedule"].size());
  for (std::size_t s = 0; s < predicted["schedule"].size(); ++s) {
    CAPTURE(s);
    CHECK(measured["schedule"][s]["segments"] == predicted["schedule"][s]["segments"]);
  }
  // Two rows of b beside a's first 3, then 4 beside a's next token, and so on: by hand.
  const Json& steps = predicted["schedule"];
  CHECK(steps[0]["segments"] == Json::parse("[[0,0,3,1],[1,0,2,0]]"));
  CHECK(steps[1]["segments"] == Json::parse("[[1,2,4,0],[0,3,1,1]]"));
  CHECK(steps[2]["segments"] == Json::parse("[[1,6,3,1],[2,0,1,0],[0,4,1,1]]"));
  CHECK(steps[3]["segments"] == Json::parse("[[2,1,3,0],[0,5,1,1],[1,9,1,1]]"));
  const Json alone = run({"--policy", "sequential", "--chunk", budget}, "alone.json");
  for (std::size_t r = 0; r < 3; ++r) {
    CAPTURE(r);
    CHECK(measured["requests"][r]["tokens"] == alone["requests"][r]["tokens"]);
  }
}

TEST_CASE("cli/workload: what makes no sense is refused in one line") {
  const Kitchen bench;
  bench.write("together.jsonl", kTogether);
  const Words draw{"workload", "--requests", "3", "--rate", "1"};
  const Words lengths{"--prompt-tokens", "5", "--new-tokens", "3"};
  const auto refused = [&](const Words& more, int code, const std::string& expected) {
    check_refused(bench, and_more(and_more(draw, more), {"--out", "w.jsonl"}), code, expected);
  };
  check_refused(bench, and_more({"workload", "--rate", "1"}, lengths), 2, "--requests");
  check_refused(bench, and_more({"workload", "--requests", "2"}, lengths), 2, "--rate");
  refused({}, 2, "--prompt-tokens");
  refused({"--prompt-tokens", "5:3", "--new-tokens", "3"}, 1, "'5:3', expected");
  refused({"--prompt-tokens", "5:x", "--new-tokens", "3"}, 1, "'5:x', expected");
  refused({"--prompt-tokens", "nan", "--new-tokens", "3"}, 1, "'nan', expected");
  refused({"--lengths", "novels"}, 1, "needlebench");
  refused({"--lengths", "bookcorpus", "--new-tokens", "3"}, 2, "--new-tokens");
  refused(and_more(lengths, {"--ids"}), 2, "--ids");
  refused({"--lengths", "bookcorpus", "--model", "tiny.json"}, 1, "together");
  const Words plan{"plan",       "--platform",     "pair.xml", "--model", "tiny.json",
                   "--workload", "together.jsonl", "--policy", "sarathi"};
  check_refused(bench, plan, 2, "--chunk N");
  check_refused(bench, and_more(plan, {"--chunk", "auto"}), 2, "'auto'");
}

}  // namespace tandem::test::workload_command_test
