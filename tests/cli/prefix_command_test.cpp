// Requests that share prefixes: predicted and run by the same steps, and refused where they cannot.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::prefix_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

// A request a second, whose prompts begin with the same `common` ids.
std::string workload(int requests, int common) {
  std::string text;
  for (int i = 0; i < requests; ++i) {
    Json request{
        {"id", "r" + std::to_string(i)}, {"arrival_s", i}, {"new_tokens", 3}, {"ignore_eos", true}};
    for (int t = 0; t < common; ++t) request["prompt_ids"].push_back(t % 7);
    for (int t = 0; t <= i; ++t) request["prompt_ids"].push_back(8 + i);
    text += request.dump() + "\n";
  }
  return text;
}

class Counter : public Kitchen {
 public:
  Counter() {
    must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
    write("ids.jsonl", workload(4, 12));
    must({"plan", "--platform", "pair.xml", "--model", "tiny", "--strategy", "tensor", "--workload",
          "ids.jsonl", "--out", "ids.json", "--quiet"});
  }
  [[nodiscard]] Json simulated(const Words& more) const {
    Words words{"simulate", "--quiet", "--out", "p.json"};
    words.insert(words.begin() + 1, more.begin(), more.end());
    must(words);
    return Json::parse(read("p.json"));
  }
  [[nodiscard]] Json ran(const Words& more) const {
    Words words{"run",       "ids.json", "--weights", "tiny",    "--cache", "cache",
                "--emulate", "--pace",   "nominal",   "--quiet", "--out",   "m.json"};
    words.insert(words.end(), more.begin(), more.end());
    must(words);
    return Json::parse(read("m.json"));
  }
};

std::vector<std::int64_t> cached_of(const Json& result) {
  std::vector<std::int64_t> cached;
  for (const Json& request : result["requests"]) cached.push_back(request["cached_tokens"]);
  return cached;
}

TEST_CASE("cli/prefix: the same steps are predicted and run, with the tokens of requests alone") {
  const Counter bench;
  const Json without = bench.ran({});
  CHECK_FALSE(without.contains("prefix_hit_rate"));
  CHECK_FALSE(without["requests"][0].contains("cached_tokens"));
  const Json run = bench.ran({"--prefix-cache", "on"});
  CHECK(cached_of(run) == std::vector<std::int64_t>{0, 12, 12, 12});
  CHECK(run["prefix_hit_rate"].get<double>() == doctest::Approx(36.0 / 58.0));
  for (std::size_t r = 0; r < 4; ++r)
    CHECK(run["requests"][r]["tokens"] == without["requests"][r]["tokens"]);
  const Json predicted = bench.simulated({"ids.json", "--prefix-cache", "on"});
  CHECK(predicted["prefix_hit_rate"] == run["prefix_hit_rate"]);
  REQUIRE(predicted["schedule"].size() == run["schedule"].size());
  for (std::size_t s = 0; s < run["schedule"].size(); ++s) {
    CHECK(predicted["schedule"][s]["segments"] == run["schedule"][s]["segments"]);
    CHECK(predicted["schedule"][s]["cache"] == run["schedule"][s]["cache"]);
  }
  for (std::size_t d = 0; d < 2; ++d) {
    CHECK(predicted["devices"][d]["bytes_sent"] == run["devices"][d]["bytes_sent"]);
    CHECK(predicted["devices"][d]["peak_memory_bytes"]["kv_cache"] ==
          without["devices"][d]["peak_memory_bytes"]["kv_cache"]);
  }
  const Json replayed = bench.simulated({"ids.json", "--schedule", "m.json"});
  CHECK(replayed["prefix_hit_rate"] == run["prefix_hit_rate"]);
  CHECK(cached_of(replayed) == cached_of(run));
  static_cast<void>(bench.simulated({"ids.json", "--prefix-cache", "on"}));
  bench.must({"compare", "p.json", "m.json"});
  // Of different ways to serve.
  static_cast<void>(bench.ran({"--prefix-cache", "off"}));
  CHECK(bench.run({"compare", "p.json", "m.json"}).err.find("prefix_cache") != std::string::npos);
}

TEST_CASE("cli/prefix: a workload of lengths states its prefixes, and the plan keeps them") {
  const Counter bench;
  std::string text;
  for (int i = 0; i < 3; ++i)
    text += R"({"id": "r)" + std::to_string(i) + R"(", "arrival_s": )" + std::to_string(i) +
            R"(, "prompt_tokens": 16, "new_tokens": 3, "prefix": [{"group": "a", "tokens": 12}]})"
            "\n";
  bench.write("lengths.jsonl", text);
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny", "--strategy", "tensor",
              "--workload", "lengths.jsonl", "--out", "lengths.json", "--quiet"});
  const std::vector<std::int64_t> expected{0, 12, 12};
  CHECK(cached_of(bench.simulated({"lengths.json"})) == expected);
  CHECK(cached_of(bench.simulated({"lengths.json", "--workload", "lengths.jsonl"})) == expected);
  CHECK_FALSE(
      bench.simulated({"lengths.json", "--prefix-cache", "off"}).contains("prefix_hit_rate"));
  CHECK(bench.good({"simulate", "lengths.json"}).find("prefix hits  50.0% of") !=
        std::string::npos);
  // Samples have one prompt.
  CHECK(cached_of(bench.simulated({"lengths.json", "--samples", "3", "--policy", "continuous",
                                   "--prefix-cache", "on"})) ==
        std::vector<std::int64_t>{0, 15, 15});
}

TEST_CASE("cli/prefix: where prefixes cannot be shared the flag is refused") {
  const Counter bench;
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny", "--strategy", "sp", "--workload",
              "ids.jsonl", "--policy", "sequential", "--out", "sp.json", "--quiet"});
  check_refused(bench, {"simulate", "sp.json", "--prefix-cache", "on"}, 2, "strategy 'sp'");
  check_refused(bench, {"simulate", "ids.json", "--prefix-cache", "perhaps"}, 1, "on, off");
  bench.plan();
  check_refused(bench, {"simulate", "plan.json", "--prefix-cache", "on"}, 2,
                "without '--workload' or '--samples'");
}

}  // namespace
}  // namespace tandem::test::prefix_command_test
