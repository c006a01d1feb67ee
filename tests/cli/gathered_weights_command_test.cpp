// Weights that travel, through the program: plan, simulate, run.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::gathered_weights_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Gathering : public Kitchen {
 public:
  Gathering() {
    Json config = Json::parse(read("tiny.json"));
    config["num_hidden_layers"] = 3;
    config["num_key_value_heads"] = 2;
    write("deeper.json", config.dump());
    must({"model", "random", "--config", "deeper.json", "--out", "deeper", "--quiet"});
    write("prompt.txt", "5 6 7 8 9 10 11 12 13 14 15 16 17 5 9 8 7");
  }
  [[nodiscard]] Words planning(const std::string& strategy, const Words& more) const {
    Words words{"plan",  "--model",         "deeper", "--strategy",   strategy, "--platform",
                "home4", "--prompt-tokens", "17",     "--new-tokens", "3"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void plan(const std::string& strategy, const Words& more) const {
    Words words = planning(strategy, more);
    words.insert(words.end(), {"--out", "plan.json", "--quiet"});
    must(words);
  }
  [[nodiscard]] Words running(const Words& more) const {
    Words words{"run",   "plan.json", "--weights",    "deeper",     "--cache",      "cache",
                "--out", "run.json",  "--prompt-ids", "prompt.txt", "--ignore-eos", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

}  // namespace

TEST_CASE("cli/gathered weights: an emulated run has one device's text and the predicted bytes") {
  const Gathering bench;
  bench.plan("local", {});
  bench.must(bench.running({}));
  const Json tokens = Json::parse(bench.read("run.json"))["tokens"];
  for (const char* const partition : {"auto", "equal"}) {
    CAPTURE(std::string(partition));
    bench.plan("csps", {"--gather-weights", "--partition", partition});
    CHECK(Json::parse(bench.read("plan.json"))["gather_weights"] == true);
    bench.must({"simulate", "plan.json", "--out", "predicted.json", "--quiet"});
    bench.must(
        {"simulate", "plan.json", "--evaluator", "analytic", "--out", "analytic.json", "--quiet"});
    bench.must(bench.running({"--emulate", "--pace", "nominal"}));
    const Json measured = Json::parse(bench.read("run.json"));
    CHECK(measured["tokens"] == tokens);
    for (std::size_t d = 0; d < 4; ++d) {
      const Json& sent = measured["devices"][d]["bytes_sent"];
      CHECK(sent == Json::parse(bench.read("predicted.json"))["devices"][d]["bytes_sent"]);
      CHECK(sent == Json::parse(bench.read("analytic.json"))["devices"][d]["bytes_sent"]);
    }
  }
}

TEST_CASE("cli/gathered weights: what goes with other flags, and what is refused") {
  const Gathering bench;
  const auto refused = [&](const std::string& strategy, const Words& more, const char* reason) {
    const auto outcome = bench.run(bench.planning(strategy, more));
    CAPTURE(reason);
    CHECK(outcome.code != 0);
    CHECK(outcome.err.find(reason) != std::string::npos);
  };
  refused("tensor", {"--gather-weights"}, "whose weights stay where they are");
  refused("csps", {"--gather-weights", "--sp", "tp"}, "'--sp tp'");
  refused("csps", {"--gather-weights", "--levels", "2"}, "a prompt that attends to all");
  refused("csps", {"--gather-weights", "--window", "2"}, "'--window all'");
  refused("auto", {"--gather-weights"}, "which chooses it");
  CHECK(bench.good(bench.planning("csps", {"--gather-weights"})).find("a layer ahead") !=
        std::string::npos);
  const std::string text = bench.good(bench.planning("csps", {"--gather-weights", "--sp", "auto"}));
  CHECK(text.find("SP-NTP, weights gathered: ") != std::string::npos);
}

}  // namespace tandem::test::gathered_weights_command_test
