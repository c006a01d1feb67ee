// Strategies that part rows through the program: which devices talk to each other depends on how
// many rows a prompt has and on which of them are asked for.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::rows_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

// Prompts of 11, 2, 1 and 3 tokens: more and fewer than the four devices.
constexpr const char* kRequests =
    R"({"id": "a", "arrival_s": 0, "prompt_ids": [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], "new_tokens": 3})"
    "\n"
    R"({"id": "b", "arrival_s": 0, "prompt_ids": [5, 6], "new_tokens": 3})"
    "\n"
    R"({"id": "c", "arrival_s": 0, "prompt_ids": [7], "new_tokens": 3})"
    "\n"
    R"({"id": "d", "arrival_s": 0, "prompt_ids": [7, 9, 12], "new_tokens": 3})"
    "\n";

// What devices of a shelf make with a strategy.
class Shelf : public Kitchen {
 public:
  Shelf() {
    must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
    write("requests.jsonl", kRequests);
    write("text.jsonl", "{\"text\": \"Once upon a time there was\"}\n{\"text\": \"abc\"}\n");
    write("long.txt", "5 6 7 8 9 10 11");
  }
  void plan(const std::string& strategy, const Words& more) const {
    Words words{"plan", "--model", "tiny", "--strategy", strategy, "--out", "plan.json", "--quiet"};
    if (std::ranges::find(more, "--platform") == more.end())
      words.insert(words.end(), {"--platform", "shelf4"});
    words.insert(words.end(), more.begin(), more.end());
    must(words);
  }
  [[nodiscard]] Json run(const Words& more) const {
    Words words{"run",   "plan.json",    "--weights", "tiny",    "--cache",
                "cache", "--ignore-eos", "--out",     "run.json"};
    if (more.front() == "--workload") words.erase(words.begin() + 6);
    words.insert(words.end(), more.begin(), more.end());
    const auto outcome = Kitchen::run(words);
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    return Json::parse(read("run.json"));
  }
  [[nodiscard]] double bits(const Words& more) const {
    Words words{"eval",   "--weights",  "tiny",    "--plan", "plan.json",
                "--text", "text.jsonl", "--cache", "cache",  "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto outcome = Kitchen::run(words);
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    return Json::parse(outcome.out)["text"]["bits"].get<double>();
  }
};

std::vector<Json> tokens_of(const Json& result) {
  std::vector<Json> all;
  for (const Json& request : result["requests"]) all.push_back(request["tokens"]);
  return all;
}

}  // namespace

TEST_CASE("cli/rows: sp, galaxy and csps serve prompts of more and fewer rows than devices") {
  const Shelf bench;
  const Words served{"--workload", "requests.jsonl", "--policy", "sequential"};
  bench.plan("local", served);
  const std::vector<Json> expected = tokens_of(bench.run(served));
  for (const char* const strategy : {"sp", "galaxy", "csps"}) {
    CAPTURE(strategy);
    bench.plan(strategy, served);
    Words words = served;
    words.insert(words.end(), {"--emulate", "--pace", "nominal"});
    CHECK(tokens_of(bench.run(words)) == expected);
  }
}

TEST_CASE("cli/rows: prompts that leave most of many devices without rows beside longer ones") {
  // Devices without rows keep nobody waiting, so more of a channel's messages are under way.
  const Shelf bench;
  bench.write(
      "requests.jsonl",
      R"({"id": "a", "arrival_s": 0, "prompt_ids": [5, 6, 7, 8, 9, 10, 11, 12, 13], "new_tokens": 2})"
      "\n"
      R"({"id": "b", "arrival_s": 0, "prompt_ids": [5, 6, 7], "new_tokens": 2})"
      "\n"
      R"({"id": "c", "arrival_s": 0, "prompt_ids": [5, 6, 7, 8, 9, 10, 11], "new_tokens": 2})"
      "\n");
  const Words served{"--workload", "requests.jsonl", "--policy", "sequential"};
  bench.plan("local", served);
  const std::vector<Json> expected = tokens_of(bench.run(served));
  for (const char* const allreduce : {"ring", "halving"}) {
    CAPTURE(allreduce);
    Words planned = served;
    planned.insert(planned.end(), {"--platform", "klonet8", "--allreduce", allreduce});
    bench.plan("sp", planned);
    Words words = served;
    words.insert(words.end(), {"--emulate", "--pace", "nominal"});
    CHECK(tokens_of(bench.run(words)) == expected);
  }
}

TEST_CASE("cli/rows: sp, galaxy and csps score texts, whatever rows are asked for") {
  const Shelf bench;
  bench.plan("local", {});
  const double expected = bench.bits({});
  for (const char* const strategy : {"sp", "galaxy", "csps"}) {
    CAPTURE(strategy);
    bench.plan(strategy, {});
    CHECK(bench.bits({"--emulate"}) == doctest::Approx(expected).epsilon(1e-5));
  }
}

TEST_CASE("cli/rows: a plan for a prompt of one token runs longer ones") {
  const Shelf bench;
  const Words prompt{"--prompt-ids", "long.txt"};
  bench.plan("local", {"--new-tokens", "3"});
  const Json expected = bench.run(prompt)["tokens"];
  for (const char* const strategy : {"sp", "galaxy", "csps"}) {
    CAPTURE(strategy);
    bench.plan(strategy, {"--prompt-tokens", "1", "--new-tokens", "3"});
    Words words = prompt;
    words.insert(words.end(), {"--emulate", "--pace", "nominal"});
    CHECK(bench.run(words)["tokens"] == expected);
  }
}

TEST_CASE("cli/rows: flags that change nothing with sp are refused") {
  const Shelf bench;
  const Words sp{"plan", "--platform", "shelf4", "--model", "tiny", "--strategy", "sp"};
  for (const auto& [flag, value, reason] :
       {std::array{"--release", "late", "keeps all weights in memory"},
        std::array{"--retain", "1", "keeps all weights in memory"},
        std::array{"--allreduce", "ring,star", "expected one collective"},
        std::array{"--tiles", "2", "which has none"}}) {
    Words words = sp;
    words.insert(words.end(), {flag, value});
    tandem::test::check_refused(bench, words, 2, reason);
  }
}

}  // namespace tandem::test::rows_command_test
