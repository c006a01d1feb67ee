// Sparse attention of prompts through the program: plan, simulate, run and eval.

#include <doctest/doctest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::sparse_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

// A model of which one layer may drop.
class Deeper : public Kitchen {
 public:
  explicit Deeper(int kv_heads = 2) {
    Json config = Json::parse(read("tiny.json"));
    config["num_hidden_layers"] = 4;
    config["num_key_value_heads"] = kv_heads;
    write("deeper.json", config.dump());
    must({"model", "random", "--config", "deeper.json", "--out", "deeper", "--quiet"});
    write("prompt.txt", "5 6 7 8 9 10 11 12 13 14 15 16 17 5 9 8 7");
    write("text.jsonl", "{\"text\": \"Once upon a time there was\"}\n{\"text\": \"abc\"}\n");
  }
  void plan(const std::string& strategy, const Words& more, const std::string& prompt = "17",
            const std::string& tokens = "3") const {
    Words words{
        "plan",  "--model",   "deeper",  "--strategy",      strategy, "--platform",   "shelf4",
        "--out", "plan.json", "--quiet", "--prompt-tokens", prompt,   "--new-tokens", tokens};
    words.insert(words.end(), more.begin(), more.end());
    must(words);
  }
  [[nodiscard]] Json run(const Words& more) const {
    Words words{"run",   "plan.json", "--weights",    "deeper",     "--cache",      "cache",
                "--out", "run.json",  "--prompt-ids", "prompt.txt", "--ignore-eos", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    must(words);
    return Json::parse(read("run.json"));
  }
  [[nodiscard]] double bits(const Words& more) const {
    Words words{"eval",   "--weights",  "deeper",  "--plan", "plan.json",
                "--text", "text.jsonl", "--cache", "cache",  "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return Json::parse(good(words))["text"]["bits"].get<double>();
  }
};

}  // namespace

TEST_CASE("cli/sparse: nothing dropped is one device's text, and what is dropped is sent less") {
  const Deeper bench;
  bench.plan("local", {});
  const Json tokens = bench.run({})["tokens"];
  const double bits = bench.bits({});
  double before = 0.0;
  for (const char* const drop : {"0", "0.7"}) {
    CAPTURE(std::string(drop));
    bench.plan("csps", {"--levels", "2", "--drop", drop});
    bench.must({"simulate", "plan.json", "--out", "predicted.json", "--quiet"});
    bench.must(
        {"simulate", "plan.json", "--evaluator", "analytic", "--out", "analytic.json", "--quiet"});
    const Json measured = bench.run({"--emulate", "--pace", "nominal"});
    double all = 0.0;
    for (std::size_t d = 0; d < 4; ++d) {
      const Json& sent = measured["devices"][d]["bytes_sent"];
      CHECK(sent == Json::parse(bench.read("predicted.json"))["devices"][d]["bytes_sent"]);
      CHECK(sent == Json::parse(bench.read("analytic.json"))["devices"][d]["bytes_sent"]);
      all += sent.get<double>();
    }
    if (before == 0.0) {
      CHECK(measured["tokens"] == tokens);
      CHECK(bench.bits({"--emulate"}) == doctest::Approx(bits).epsilon(1e-5));
    } else {
      CHECK(all < before);
      CHECK(bench.bits({"--emulate"}) != doctest::Approx(bits).epsilon(1e-5));
    }
    before = all;
  }
}

TEST_CASE("cli/sparse: galaxy drops what it computes and sends the same") {
  const Deeper bench(4);  // one for each device
  bench.plan("local", {});
  const Json tokens = bench.run({})["tokens"];
  const double alone = bench.bits({});
  std::vector<double> bytes;
  std::vector<double> bits;
  for (const Words& more :
       {Words{"--levels", "2"}, {"--drop", "0.7"}, {"--drop", "0.7", "--levels-overlap"}}) {
    CAPTURE(more.back());
    Words equal = more;
    equal.insert(equal.end(), {"--partition", "equal"});
    bench.plan("galaxy", equal);
    const std::string plan = bench.read("plan.json");
    equal.insert(equal.end(), {"--sp", "tp"});
    bench.plan("csps", equal);
    CHECK(bench.read("plan.json") == plan);
    bench.must({"simulate", "plan.json", "--out", "predicted.json", "--quiet"});
    bench.must(
        {"simulate", "plan.json", "--evaluator", "analytic", "--out", "analytic.json", "--quiet"});
    const Json measured = bench.run({"--emulate", "--pace", "nominal"});
    bytes.push_back(0.0);
    for (std::size_t d = 0; d < 4; ++d) {
      const Json& sent = measured["devices"][d]["bytes_sent"];
      CHECK(sent == Json::parse(bench.read("predicted.json"))["devices"][d]["bytes_sent"]);
      CHECK(sent == Json::parse(bench.read("analytic.json"))["devices"][d]["bytes_sent"]);
      bytes.back() += sent.get<double>();
    }
    bits.push_back(bench.bits({"--emulate"}));
    if (bits.size() == 1) CHECK(measured["tokens"] == tokens);
  }
  CHECK(bits[0] == doctest::Approx(alone).epsilon(1e-5));
  CHECK(bits[1] != doctest::Approx(alone).epsilon(1e-5));
  CHECK(bits[2] != doctest::Approx(bits[1]).epsilon(1e-5));
  CHECK(bytes[1] == bytes[2]);
}

TEST_CASE("cli/sparse: galaxy that drops refuses a key/value head at two devices") {
  const Deeper bench;
  Words words{"plan",   "--model",  "deeper", "--strategy",  "galaxy", "--platform",
              "shelf4", "--levels", "2",      "--partition", "equal"};
  bench.must(words);
  words.insert(words.end(), {"--drop", "0.5"});
  tandem::test::check_refused(bench, words, 1, "plan with '--partition auto'");
  words[10] = "auto";
  bench.must(words);
}

TEST_CASE("cli/sparse: levels that overlap, and heads that drop apart, as the plan file has them") {
  const Deeper bench;
  bench.plan("local", {});
  const double alone = bench.bits({});
  bench.plan("csps", {"--levels", "2", "--levels-overlap"});
  // Near tokens count twice: another result, though nothing is dropped.
  CHECK(bench.bits({"--emulate"}) != doctest::Approx(alone).epsilon(1e-5));
  Json plan = Json::parse(bench.read("plan.json"));
  CHECK(plan["sparse_attention"]["overlap"] == true);
  plan["sparse_attention"]["drop"][2][0] = {0.25, 0.75};
  bench.write("plan.json", plan.dump());
  bench.must({"simulate", "plan.json", "--out", "predicted.json", "--quiet"});
  bench.must(
      {"simulate", "plan.json", "--evaluator", "analytic", "--out", "analytic.json", "--quiet"});
  const Json measured = bench.run({"--emulate", "--pace", "nominal"});
  for (std::size_t d = 0; d < 4; ++d) {
    const Json& sent = measured["devices"][d]["bytes_sent"];
    CHECK(sent == Json::parse(bench.read("predicted.json"))["devices"][d]["bytes_sent"]);
    CHECK(sent == Json::parse(bench.read("analytic.json"))["devices"][d]["bytes_sent"]);
  }
  plan["sparse_attention"]["drop"][2][0] = {0.25, 0.75, 0.5};
  bench.write("plan.json", plan.dump());
  tandem::test::check_refused(bench, {"simulate", "plan.json"}, 1,
                              "one for each of the 2 key/value heads");
}

TEST_CASE("cli/sparse: devices that hold rows of the head send their candidates") {
  const Deeper bench;
  bench.plan("csps", {"--levels", "2", "--drop", "0.5"});
  const Json tokens = bench.run({"--emulate", "--pace", "nominal"})["tokens"];
  bench.plan("csps", {"--levels", "2", "--drop", "0.5", "--head", "split", "--candidates", "2"});
  bench.must({"simulate", "plan.json", "--out", "predicted.json", "--quiet"});
  const Json measured = bench.run({"--emulate", "--pace", "nominal"});
  CHECK(measured["tokens"] == tokens);
  for (std::size_t d = 0; d < 4; ++d)
    CHECK(measured["devices"][d]["bytes_sent"] ==
          Json::parse(bench.read("predicted.json"))["devices"][d]["bytes_sent"]);
}

TEST_CASE(
    "cli/sparse: a plan whose own prompt is the master's alone is one for longer texts, too") {
  const Deeper bench;
  bench.plan("csps", {"--levels", "2"}, "2", "1");
  const double bits = bench.bits({"--emulate"});
  bench.plan("local", {});
  CHECK(bits == doctest::Approx(bench.bits({})).epsilon(1e-5));
}

TEST_CASE("cli/sparse: the plan's table tells levels and what they drop, and so does JSON") {
  const Deeper bench;
  const Words words{"plan",      "--model",         "deeper", "--strategy", "csps",   "--levels",
                    "2",         "--drop",          "0.25",   "--platform", "shelf4", "--out",
                    "plan.json", "--prompt-tokens", "17"};
  const std::string table = bench.good(words);
  CHECK(table.find("25.0% in layers [2, 3)") != std::string::npos);
  CHECK(table.find("nothing is dropped") != std::string::npos);
  CHECK(table.find("heads and FFN columns are those") == std::string::npos);
  CHECK(table.find("overlap") == std::string::npos);
  Words overlapping = words;
  overlapping.emplace_back("--levels-overlap");
  CHECK(bench.good(overlapping).find("each level, which overlap") != std::string::npos);
  Words galaxy = words;
  galaxy[4] = "galaxy";
  const std::string ranks = bench.good(galaxy);
  CHECK(ranks.find("25.0% in layers [2, 3)") != std::string::npos);
  CHECK(ranks.find("computing, not messages") != std::string::npos);
  CHECK(ranks.find("holds the whole model") == std::string::npos);
  Words json = words;
  json.emplace_back("--json");
  const Json levels = Json::parse(bench.good(json))["levels"];
  CHECK(levels.size() == 2);
  CHECK(levels[0]["drop"] == Json::array({0.0, 0.0, 0.0, 0.0}));
  CHECK(levels[1]["drop"] == Json::array({0.0, 0.0, 0.25, 0.0}));
  CHECK(levels[0]["groups"].size() == 4);
  CHECK(levels[1]["groups"].size() == 1);
  CHECK(levels[1]["groups"][0].size() == 4);
}

TEST_CASE("cli/sparse: flags that nothing obeys are refused") {
  const Kitchen bench;
  const auto refused = [&](const std::string& strategy, const Words& more, int code,
                           const char* reason) {
    Words words{"plan", "--platform", "shelf4", "--model", "tiny.json", "--strategy", strategy};
    words.insert(words.end(), more.begin(), more.end());
    tandem::test::check_refused(bench, words, code, reason);
  };
  refused("tensor", {"--levels", "2"}, 2, "expected strategy 'galaxy' or 'csps'");
  refused("pipeline", {"--drop", "0.5"}, 2, "expected strategy 'galaxy' or 'csps'");
  refused("galaxy", {"--max-ttft", "1s"}, 2, "expected strategy 'csps'");
  refused("galaxy", {"--levels-overlap"}, 2, "without '--levels' or '--drop'");
  refused("galaxy", {"--drop", "0.5", "--decode-moves", "migrate"}, 2, "'--decode-moves'");
  refused("galaxy", {"--drop", "0.5", "--tiles", "2"}, 1, "leave out '--tiles'");
  refused("galaxy", {"--drop", "0.5", "--window", "2"}, 1, "'--window all'");
  refused("galaxy", {"--drop", "0.5", "--samples", "2"}, 1, "leave out '--workload'");
  refused("galaxy", {"--levels", "5"}, 1, "the network tells");
  refused("auto", {"--drop", "0.5"}, 2, "name strategy 'galaxy' or 'csps'");
  refused("auto", {"--levels", "2"}, 2, "'auto', whose plans have no levels; name strategy");
  refused("auto", {"--sp", "tp"}, 2, "compares both");
  refused("csps", {"--levels", "auto", "--max-loss", "0.1"}, 2,
          "'auto' with '--max-loss', which chooses them; expected a number");
  refused("csps", {"--levels", "none", "--drop", "0.5"}, 2, "or leave '--drop' out");
  refused("csps", {"--levels", "two"}, 1, "'two', expected 2 to 8, none or auto");
  refused("csps", {"--sp", "auto", "--drop", "0.5"}, 2, "expected ntp or tp");
  refused("csps", {"--sp", "tp", "--max-loss", "0.1"}, 2, "expected ntp");
  refused("csps", {"--sp", "tp", "--drop", "0.5", "--decode-moves", "migrate"}, 2, "expected ntp");
  refused("tensor", {"--levels-overlap"}, 2, "expected strategy 'galaxy' or 'csps'");
  refused("auto", {"--levels-overlap"}, 2, "name strategy");
  refused("csps", {"--levels-overlap"}, 2, "without '--levels' or '--drop'");
  refused("csps", {"--sp", "auto", "--levels-overlap"}, 2, "expected ntp");
  refused("csps", {"--levels", "1"}, 1, "--levels: '1' is not");
  refused("csps", {"--drop", "1.5"}, 1, "--drop: '1.5' is not");
  refused("csps", {"--drop", "1"}, 1, "less than 1");
  refused("csps", {"--drop", "0.5", "--tiles", "0"}, 1, "--tiles: '0' is not");
  refused("csps", {"--drop", "0.5", "--tiles", "2,"}, 1, "--tiles: '' is not");
  refused("csps", {"--drop", "0.5", "--tiles", "2,2"}, 1, "tiles of 2 levels: expected 1");
  refused("csps", {"--drop", "0.5", "--sp", "tp", "--tiles", "2"}, 1, "leave out '--tiles'");
  refused("csps", {"--drop", "0.5", "--window", "2"}, 1, "'--window all'");
  refused("csps", {"--levels", "5"}, 1, "the network tells");
}

}  // namespace tandem::test::sparse_command_test
