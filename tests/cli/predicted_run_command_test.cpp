// tandem run --predicted.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::predicted_run_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Watch : Kitchen {
  Watch() {
    must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
    plan();
    must({"simulate", "plan.json", "--out", "predicted.json", "--quiet"});
  }
  [[nodiscard]] static Words running(const std::string& plan, const Words& more) {
    Words words{"run",   plan,        "--weights", "tiny",   "--cache",
                "cache", "--emulate", "--pace",    "nominal"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] Outcome with(const std::string& prediction, Words more = {}) const {
    more.insert(more.end(), {"--predicted", prediction});
    return run(running("plan.json", more));
  }
};

}  // namespace

TEST_CASE("cli/run --predicted: the text alone is on standard output") {
  const Watch bench;
  const Outcome without = bench.run(Watch::running("plan.json", {"--ignore-eos"}));
  const Outcome watched = bench.with("predicted.json", {"--ignore-eos"});
  REQUIRE_MESSAGE(watched.code == 0, watched.err);
  CHECK(watched.out == without.out);
  CHECK(has(watched.err, "tandem: first token: predicted "));
  CHECK(has(watched.err, ", replayed "));
  CHECK(has(watched.err, "tandem: token latency, mean: predicted "));
  CHECK(has(watched.err, "replayed times follow the prediction's formulas"));
  CHECK_FALSE(has(watched.err, "measured"));
}

TEST_CASE("cli/run --predicted: a line every few seconds, and the device that deviates most") {
  const Watch bench;
  // A message takes 0.2 s, so that a token takes a second or so.
  bench.write("slow.json", replaced(bench.read("profile.json"), "\"overhead_s\": 1.5e-05",
                                    "\"overhead_s\": 0.2"));
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--profile", "slow.json",
              "--strategy", "tensor", "--partition", "equal", "--prompt-tokens", "5",
              "--new-tokens", "4", "--out", "plan.json", "--quiet"});
  bench.must({"simulate", "plan.json", "--out", "predicted.json", "--quiet"});
  Json json = Json::parse(bench.read("predicted.json"));
  double& busy = json["devices"][1]["busy_s"]["channel"].get_ref<double&>();
  busy *= 3.0;
  json["metrics"]["ttft_s"] = json["metrics"]["ttft_s"].get<double>() * 2.0;
  const double ttft = json["metrics"]["ttft_s"].get<double>();
  Json& intervals = json["metrics"]["interval_90"];
  std::string expected;
  SUBCASE("with intervals") {
    intervals["ttft_s"] = {0.9 * ttft, 1.1 * ttft};
    expected = "outside its 90% interval";
  }
  SUBCASE("without intervals") {
    intervals = nullptr;
    expected = "more than 10% off";
  }
  bench.write("edited.json", json.dump());
  const Outcome watched = bench.with("edited.json", {"--ignore-eos"});
  REQUIRE_MESSAGE(watched.code == 0, watched.err);
  CHECK(has(watched.err, " of 4 tokens, each "));
  CHECK(has(watched.err, ", predicted "));
  const std::string device = json["devices"][1]["name"].get<std::string>();
  CHECK(has(watched.err, "deviates most: messages from '" + device + "' over link '"));
  const std::size_t first = watched.err.find("first token: ");
  REQUIRE(first != std::string::npos);
  CHECK(has(watched.err.substr(first, watched.err.find('\n', first) - first), expected));
}

TEST_CASE("cli/run --predicted: a text that ends early is held against as many tokens") {
  const Watch bench;
  bench.must(Watch::running("plan.json", {"--ignore-eos", "--out", "whole.json", "--quiet"}));
  Json config = Json::parse(bench.read("tiny.json"));
  config["eos_token_id"] = Json::parse(bench.read("whole.json"))["tokens"][1];
  bench.write("tiny.json", config.dump());
  std::filesystem::remove_all(bench.folder() / "tiny");
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
  bench.plan();
  bench.must({"simulate", "plan.json", "--out", "predicted.json", "--quiet"});
  const Outcome watched = bench.with("predicted.json");
  REQUIRE_MESSAGE(watched.code == 0, watched.err);
  CHECK(has(watched.err, "4 new tokens were predicted, "));
  CHECK(has(watched.err, "first token: predicted "));
  CHECK_FALSE(has(watched.err, "deviates most"));
}

TEST_CASE("cli/run --predicted: requests that ended are held against the same ones") {
  const Watch bench;
  bench.write(
      "requests.jsonl",
      R"({"id": "a", "arrival_s": 0, "prompt_ids": [1, 2, 3], "new_tokens": 3, "ignore_eos": true})"
      "\n"
      R"({"id": "b", "arrival_s": 0.01, "prompt_ids": [4, 5], "new_tokens": 4, "ignore_eos": true})"
      "\n");
  const Words served{"--workload", "requests.jsonl", "--policy", "static"};
  Words simulate{"simulate", "plan.json", "--out", "served.json", "--quiet"};
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--workload",
              "requests.jsonl", "--policy", "static", "--out", "plan.json", "--quiet"});
  simulate.insert(simulate.end(), served.begin(), served.end());
  bench.must(simulate);
  const Outcome watched = bench.with("served.json", served);
  REQUIRE_MESSAGE(watched.code == 0, watched.err);
  CHECK(has(watched.err, "first token, mean of requests: predicted "));
  CHECK(has(watched.err, "request, mean: predicted "));

  const auto edited = [&](const auto& change) {
    Json json = Json::parse(bench.read("served.json"));
    change(json);
    bench.write("edited.json", json.dump());
    const Outcome outcome = bench.with("edited.json", served);
    CHECK(outcome.code == 1);
    return outcome.err;
  };
  CHECK(
      has(edited([](Json& j) { j["requests"][1]["id"] = "c"; }), "request 2 is 'c', expected 'b'"));
  CHECK(has(edited([](Json& j) {
              j["requests"][1]["arrival_s"] = 1.0;
              j["requests"][1].erase("token_times_s");  // which would contradict it
            }),
            "arrives after 1.0"));
  CHECK(has(edited([](Json& j) { j["environment"]["policy"] = "continuous"; }),
            "'environment.policy' is continuous, expected static"));
  CHECK(has(edited([](Json& j) { j["schedule"].erase(j["schedule"].size() - 1); }), "new tokens"));
  CHECK(has(edited([](Json& j) { j["requests"].erase(1); }), "of 1 requests, expected 2"));
  CHECK(has(edited([](Json& j) { j["environment"].erase("policy"); }),
            "a replay of the steps of a run"));
}

TEST_CASE("cli/run --predicted: what is no prediction of this run is refused before it begins") {
  const Watch bench;
  bench.must(Watch::running("plan.json", {"--ignore-eos", "--out", "replayed.json", "--quiet"}));
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--prompt-tokens", "6",
              "--new-tokens", "4", "--out", "other.json", "--quiet"});
  bench.must({"simulate", "other.json", "--out", "other-predicted.json", "--quiet"});
  const auto refused = [&](const Words& more, int code, const std::string& expected) {
    check_refused(bench, Watch::running("plan.json", more), code, expected);
  };
  refused({"--predicted", "none.json"}, 1, "none.json");
  refused({"--predicted", "plan.json"}, 1, "plan.json");
  refused({"--predicted", "replayed.json"}, 1, "'kind' is \"replayed\", expected \"predicted\"");
  refused({"--predicted", "other-predicted.json"}, 1, "of plan ");
  refused({"--predicted", "predicted.json", "--new-tokens", "2"}, 1, "of 4 new tokens, expected 2");
  refused({"--predicted", "predicted.json", "--quiet"}, 2, "'--quiet'");
  refused({"--predicted", "predicted.json", "--out", "predicted.json"}, 2, "'--predicted'");
  refused({"--predicted", "predicted.json", "--samples", "2"}, 1, "of one request");
  check_refused(bench,
                {"run", "--weights", "tiny", "--prompt-ids", "x", "--predicted", "predicted.json"},
                2, "without a plan");
}

}  // namespace tandem::test::predicted_run_command_test
