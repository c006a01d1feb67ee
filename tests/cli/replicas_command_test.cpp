// Replicas: planned into a folder, predicted and run from it, as a person would.

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::replicas_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kRequests =
    R"({"id": "a", "arrival_s": 0, "prompt": "hello", "new_tokens": 6, "ignore_eos": true})"
    "\n"
    R"({"id": "b", "arrival_s": 0, "prompt_ids": [1, 2, 3], "new_tokens": 4, "ignore_eos": true})"
    "\n"
    R"({"id": "c", "arrival_s": 0, "prompt": "good day", "new_tokens": 5, "temperature": 0.7, "ignore_eos": true})"
    "\n"
    R"({"id": "d", "arrival_s": 0, "prompt": "good night", "new_tokens": 6, "ignore_eos": true})"
    "\n";

class Counter : public Kitchen {
 public:
  Counter() {
    must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
    write("requests.jsonl", kRequests);
  }
  void plan(const Words& more) const {
    Words words{"plan",  "--platform", "pair.xml", "--model",    "tiny",
                "--out", "folder",     "--quiet",  "--strategy", "auto"};
    words.insert(words.end(), more.begin(), more.end());
    must(words);
  }
  [[nodiscard]] Json result(const std::string& name) const { return Json::parse(read(name)); }
  [[nodiscard]] std::map<std::string, Json> tokens(const std::string& name) const {
    std::map<std::string, Json> all;
    const Json read = result(name);
    for (const Json& request : read["requests"]) all[request["id"]] = request["tokens"];
    return all;
  }
};

}  // namespace

TEST_CASE("cli/replicas: a folder is planned, predicted and run, with the tokens of one plan") {
  const Counter bench;
  bench.plan({"--workload", "requests.jsonl", "--replicas", "2", "--dispatch", "fewest-open"});
  const Json list = bench.result("folder/replicas.json");
  CHECK(list["dispatch"] == "fewest-open");
  REQUIRE(list["replicas"].size() == 2);
  bench.must({"simulate", "folder", "--out", "predicted.json", "--quiet"});
  bench.must({"run", "folder", "--weights", "tiny", "--cache", "cache", "--emulate", "--pace",
              "nominal", "--out", "replayed.json", "--quiet"});
  const Json predicted = bench.result("predicted.json");
  const Json replayed = bench.result("replayed.json");
  CHECK(predicted["plan"] == replayed["plan"]);
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(replayed["requests"][r]["end_s"].get<double>() ==
          doctest::Approx(predicted["requests"][r]["end_s"].get<double>()).epsilon(0.02));
  }
  CHECK(predicted["devices"].size() == 2);
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny", "--strategy", "local",
              "--workload", "requests.jsonl", "--out", "one.json", "--quiet"});
  bench.must({"run", "one.json", "--weights", "tiny", "--cache", "cache", "--emulate", "--pace",
              "nominal", "--out", "one-run.json", "--quiet"});
  CHECK(bench.tokens("replayed.json") == bench.tokens("one-run.json"));
  bench.must({"simulate", "folder", "--workload", "requests.jsonl", "--tokenizer", "tiny", "--out",
              "again.json", "--quiet"});
  CHECK(bench.read("again.json") == bench.read("predicted.json"));
}

TEST_CASE("cli/replicas: samples with a temperature keep their own seeds") {
  const Counter bench;
  bench.plan({"--samples", "4", "--prompt-tokens", "4", "--new-tokens", "5", "--replicas", "2"});
  const Words how{"--weights", "tiny",     "--cache", "cache",        "--emulate",     "--pace",
                  "nominal",   "--prompt", "abc",     "--ignore-eos", "--temperature", "1.5",
                  "--seed",    "7",        "--quiet", "--out"};
  Words run{"run", "folder"};
  run.insert(run.end(), how.begin(), how.end());
  run.emplace_back("replicas-run.json");
  const Outcome outcome = bench.run(run);
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  std::map<std::string, Json> seen = bench.tokens("replicas-run.json");
  REQUIRE(seen.size() == 4);
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny", "--strategy", "local",
              "--samples", "4", "--prompt-tokens", "4", "--new-tokens", "5", "--out", "one.json",
              "--quiet"});
  Words alone{"run", "one.json"};
  alone.insert(alone.end(), how.begin(), how.end());
  alone.emplace_back("alone.json");
  REQUIRE(bench.run(alone).code == 0);
  CHECK(seen == bench.tokens("alone.json"));
  std::vector<Json> texts;
  for (const auto& [id, tokens] : seen) {
    for (const Json& other : texts) CHECK(tokens != other);  // four seeds, four texts
    texts.push_back(tokens);
  }
}

TEST_CASE("cli/replicas: another workload is sent to the same plans") {
  const Counter bench;
  bench.plan({"--samples", "4", "--prompt-tokens", "5", "--new-tokens", "4", "--replicas", "2"});
  bench.must({"simulate", "folder", "--samples", "6", "--out", "six.json", "--quiet"});
  CHECK(bench.result("six.json")["requests"].size() == 6);
}

TEST_CASE("cli/replicas: what makes no sense is refused in one line") {
  const Counter bench;
  const Words base{"plan",    "--strategy", "auto",  "--platform", "pair.xml",
                   "--model", "tiny",       "--out", "folder"};
  const auto refused = [&](const Words& more, int code, const std::string& expected) {
    CAPTURE(expected);
    Words words = base;
    words.insert(words.end(), more.begin(), more.end());
    check_refused(bench, words, code, expected);
  };
  refused({"--replicas", "2"}, 2, "give '--workload FILE' or '--samples M'");
  refused({"--replicas", "3", "--samples", "4"}, 1, "there are 2 devices and 4 requests");
  refused({"--replicas", "0", "--samples", "4"}, 1, "--replicas");
  check_refused(bench,
                {"plan", "--strategy", "local", "--platform", "pair.xml", "--model", "tiny",
                 "--out", "folder", "--samples", "4", "--replicas", "2"},
                2, "'--strategy auto'");
  refused({"--replicas", "2", "--samples", "4", "--master", "desk"}, 2, "a master of its own");
  refused({"--dispatch", "least-work"}, 2, "without '--replicas'");
  refused({"--replicas", "2", "--samples", "4", "--dispatch", "random"}, 1, "least-work");
}

TEST_CASE("cli/replicas: a folder that is not as it was written is refused") {
  const Counter bench;
  check_refused(bench, {"simulate", "tiny"}, 1,
                "a folder, expected a plan, or a folder with replicas.json");
  check_refused(bench, {"run", "tiny", "--weights", "tiny", "--emulate"}, 1,
                "a folder, expected a plan, or a folder with replicas.json");
  bench.plan({"--samples", "4", "--prompt-tokens", "5", "--new-tokens", "4", "--replicas", "2"});
  check_refused(bench, {"run", "folder", "--weights", "tiny"}, 2, "expected '--emulate'");
  check_refused(bench, {"simulate", "folder", "--policy", "static"}, 2, "simulate that plan");
  check_refused(bench, {"simulate", "folder", "--out", "folder/replica-1.json"}, 2, "folder");
  check_refused(
      bench, {"run", "folder", "--weights", "tiny", "--emulate", "--out", "folder/replicas.json"},
      2, "folder");
  const std::string list = bench.read("folder/replicas.json");
  bench.write("folder/replicas.json", replaced(list, "least-work", "most-work"));
  check_refused(bench, {"simulate", "folder"}, 1, "most-work");
  bench.write("folder/replicas.json", replaced(list, "0,", "9,"));
  check_refused(bench, {"simulate", "folder"}, 1, "each request at one replica");
  bench.write("folder/replicas.json", list);
  bench.write("folder/replica-1.json", bench.read("folder/replica-2.json"));
  check_refused(bench, {"simulate", "folder"}, 1, "not the plan that");
  bench.plan({"--workload", "requests.jsonl", "--replicas", "2", "--dispatch", "fewest-open"});
  check_refused(bench, {"run", "folder", "--weights", "tiny", "--emulate", "--prompt", "hi"}, 2,
                "for a workload");
  check_refused(bench,
                {"plan", "--strategy", "auto", "--platform", "pair.xml", "--model", "tiny", "--out",
                 "folder", "--workload", "folder/requests-1.jsonl", "--replicas", "2"},
                2, "requests-1.jsonl");
  bench.write("folder/requests-2.jsonl", bench.read("folder/requests-2.jsonl") + "\n");
  check_refused(bench, {"simulate", "folder"}, 1, "changed since its plan was made");
}

}  // namespace tandem::test::replicas_command_test
