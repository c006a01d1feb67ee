// The search for the best plan that `tandem plan` makes by default, and what bounds it.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::search_effort_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const Words kSmall{"plan", "--model", "gpt2-l", "--platform", "home4", "--strategy=auto"};

Words with(const Words& more) {
  Words words = kSmall;
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("cli/search: a limit of evaluations gives the same plan each time, and says so") {
  const Kitchen bench;
  const Words limited = with({"--evaluations", "60"});
  const auto json = [&](const std::string& file) {
    Words words = limited;
    words.insert(words.end(), {"--json", "--out", file});
    return Json::parse(bench.good(words));
  };
  const Json first = json("first.json");
  CHECK_FALSE(first.at("choice").at("to_the_end").get<bool>());
  CHECK(first.at("choice").at("evaluations").get<int>() >= 60);
  CHECK(first.at("choice") == json("second.json").at("choice"));
  CHECK(bench.read("first.json") == bench.read("second.json"));
  CHECK(Json::parse(bench.read("first.json")).at("search").at("to_the_end") == false);
  bench.must({"simulate", "first.json"});
  Json odd = Json::parse(bench.read("first.json"));
  odd["search"]["seconds"] = 3;
  bench.write("odd.json", odd.dump());
  CHECK(contains(bench.run({"simulate", "odd.json"}).err, "seconds"));
  CHECK(contains(bench.good(limited), "--seconds 0, which searches to the end"));
}

TEST_CASE("cli/search: where no strategy has a plan, each remedy is printed once") {
  const Kitchen bench;
  for (const Words& more : {Words{"--memory-limit", "40MiB", "--window", "all"},
                            Words{"--memory-limit", "1MiB", "--chunk", "whole"}}) {
    const Outcome none = bench.run(with(more));
    CAPTURE(none.out);
    CHECK(none.code == 3);
    CHECK(none.out.starts_with("no strategy has a plan\nnot local: "));
    const std::size_t at = none.out.find("\nremedy: fewer tokens, more devices or memory, ");
    CHECK(at != std::string::npos);
    CHECK(none.out.find("\nremedy: fewer tokens", at + 1) == std::string::npos);
  }
}

TEST_CASE("cli/search: the examples that help shows are plans") {
  const Kitchen bench;
  const std::string help = bench.good({"help", "plan"});
  std::istringstream lines(help.substr(help.find("\nexamples:\n") + 11));
  int examples = 0;
  for (std::string line; std::getline(lines, line) && line.starts_with("  tandem ");) {
    ++examples;
    const Outcome outcome = bench.shell(
        "\"$TANDEM\"" + line.substr(line.find(" plan ")) +
        (line.find("--strategy") == std::string::npos ? " --evaluations 1 --quiet" : " --quiet"));
    CAPTURE(line);
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
  }
  CHECK(examples == 3);
}

TEST_CASE("cli/search: to the end is never slower than a limited search" *
          doctest::test_suite("long")) {
  const Kitchen bench;
  // What the search without limits found before it had any.
  struct Known {
    Words words;
    double seconds;
  };
  for (const Known& known : {Known{{"plan", "--model", "gpt2-l", "--platform", "home4",
                                    "--prompt-tokens", "64", "--new-tokens", "16"},
                                   6.8912964096001215},
                             Known{{"plan", "--model", "tinyllama-1.1b", "--platform", "flat3",
                                    "--prompt-tokens", "64", "--new-tokens", "32"},
                                   68.6029960432483}}) {
    CAPTURE(known.words);
    const auto found = [&](const Words& more) {
      Words all = known.words;
      all.insert(all.end(), {"--strategy=auto", "--json", "--out", "plan.json"});
      all.insert(all.end(), more.begin(), more.end());
      const Json plan = Json::parse(bench.good(all));
      return plan.at("choice").at("contenders").at(0).at("request_s").get<double>();
    };
    const double to_the_end = found({"--seconds", "0"});
    CHECK_FALSE(Json::parse(bench.read("plan.json")).contains("search"));
    CHECK(to_the_end <= known.seconds * (1.0 + 1e-6));
    CHECK(to_the_end <= found({"--evaluations", "40"}) * (1.0 + 1e-3));
  }
}

TEST_CASE("cli/search: limits are refused where nothing is limited, and checked") {
  const Kitchen bench;
  for (const std::string flag : {"--seconds", "--evaluations"}) {
    check_refused(bench,
                  {"plan", "--model", "tandem-tiny", "--platform", "home4", "--strategy", "csps",
                   "--max-ttft", "5s", flag, "3"},
                  2, flag);
    for (const std::string value : {"-1", "soon", "1e400"})
      check_refused(bench, with({flag, value}), 1, flag);
  }
}

TEST_CASE("cli/search: limits end the comparison of plans, too, and it says so") {
  const Kitchen bench;
  for (const Words& compared : {Words{"--strategy", "csps", "--sp", "auto"},
                                Words{"--strategy", "spread", "--decode-moves", "auto"},
                                Words{"--strategy", "spread", "--devices", "fewest"}}) {
    CAPTURE(compared.back());
    for (const std::string evaluations : {"1", "0"}) {
      Words words{"plan",       "--model",       "tinyllama-1.1b",
                  "--platform", "home4",         "--prompt-tokens",
                  "64",         "--new-tokens",  "8",
                  "--dtype",    "q4_0",          "--out",
                  "plan.json",  "--evaluations", evaluations};
      words.insert(words.end(), compared.begin(), compared.end());
      const Outcome found = bench.run(words);
      CHECK_MESSAGE(found.code == 0, found.err);
      const bool is_cut = contains(found.err, "--seconds 0, which searches to the end");
      CHECK(is_cut == Json::parse(bench.read("plan.json")).contains("search"));
      if (evaluations == "0") CHECK_FALSE(is_cut);
      if (compared.back() == "auto" && evaluations == "1") CHECK(is_cut);
    }
  }
}

TEST_CASE("cli/search: one strategy has limits, too, and says which axes were cut") {
  const Kitchen bench;
  const auto outcome = [&](const std::string& strategy, const std::string& evaluations) {
    const Outcome found =
        bench.run({"plan", "--model", "tinyllama-1.1b", "--dtype", "q4_0", "--platform", "home4",
                   "--strategy", strategy, "--prompt-tokens", "64", "--new-tokens", "8",
                   "--evaluations", evaluations, "--out", "plan.json"});
    CHECK_MESSAGE(found.code == 0, found.err);
    return found;
  };
  CHECK(contains(outcome("spread", "1").err, "--seconds 0, which searches to the end"));
  CHECK(Json::parse(bench.read("plan.json")).at("search").at("to_the_end") == false);
  CHECK_FALSE(contains(outcome("spread", "0").err, "searches to the end"));
  CHECK_FALSE(Json::parse(bench.read("plan.json")).contains("search"));
  CHECK(contains(outcome("galaxy", "1000").err, "not searched to the end: "));
}

TEST_CASE("cli/search: the usual request has 512 and 128 tokens, or what the context holds") {
  const Kitchen bench;
  const auto lengths = [&](const std::string& model, const Words& more) {
    Words words{"plan",   "--model", model,      "--platform", "home4", "--strategy=local",
                "--json", "--out",   "plan.json"};
    words.insert(words.end(), more.begin(), more.end());
    bench.must(words);
    const Json workload = Json::parse(bench.read("plan.json")).at("workload");
    return std::pair(workload.at("prompt_tokens").get<int>(), workload.at("new_tokens").get<int>());
  };
  CHECK(lengths("gpt2-l", {}) == std::pair(512, 128));
  CHECK(lengths("bert-l", {}) == std::pair(512, 0));
  CHECK(lengths("gpt2-l", {"--prompt-tokens", "1000"}) == std::pair(1000, 24));
  CHECK(lengths("gpt2-l", {"--new-tokens", "1000"}) == std::pair(24, 1000));
  CHECK(lengths("tiny.json", {}) == std::pair(103, 25));
  CHECK(contains(bench.good({"plan", "--model", "gpt2-l", "--platform", "home4", "--strategy",
                             "local", "--prompt-tokens", "1000"}),
                 "shortened to the model's context of 1024"));
}

TEST_CASE("cli/search: help of plan shows the common flags, and all with --all") {
  const Kitchen bench;
  const std::string common = bench.good({"help", "plan"});
  const std::string all = bench.good({"help", "plan", "--all"});
  CHECK(contains(common, "--seconds"));
  CHECK(contains(common, "examples:"));
  CHECK_FALSE(contains(common, "--decode-moves"));
  CHECK(contains(all, "--decode-moves"));
  CHECK(contains(all, "--seconds"));
}

}  // namespace tandem::test::search_effort_command_test
