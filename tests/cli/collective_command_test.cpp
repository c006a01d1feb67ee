// Collectives through the program: a real run, its tokens and bytes beside the prediction's.

#include <doctest/doctest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::collective_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

struct Case {
  std::string strategy;
  std::string platform;
  std::string allreduce;
};

// Homes of two and three devices, 5 ms apart.
std::string homes() {
  std::string nodes;
  std::string links;
  std::string routes;
  const auto add = [&](const std::string& name, const std::string& to, bool is_home) {
    nodes += is_home ? "<router id='" + name + "'/>\n"
                     : "<host id='" + name +
                           "' speed='4Gf'><prop id='tandem:memory' value='1GiB'/>"
                           "<prop id='tandem:memory_bandwidth' value='1GBps'/></host>\n";
    links += "<link id='l-" + name + "' bandwidth='1Gbps' latency='" +
             (is_home ? "2.5ms" : "0.1ms") + "' sharing_policy='SPLITDUPLEX'/>\n";
    routes += "<route src='" + name + "' dst='" + to + "'><link_ctn id='l-" + name +
              "' direction='UP'/></route>\n";
  };
  for (const char* const name : {"a0", "b0", "a1", "b1", "b2"})
    add(name, std::string("home-") + *name, false);
  for (const char* const home : {"home-a", "home-b"}) add(home, "core", true);
  return "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
         "\"https://simgrid.org/simgrid.dtd\">\n<platform version='4.1'>\n"
         "<zone id='homes' routing='DijkstraCache'>\n" +
         nodes + "<router id='core'/>\n" + links + routes + "</zone>\n</platform>\n";
}

Words plan_words(const Case& one) {
  return {"plan",       "--model",         "tiny",        "--strategy",
          one.strategy, "--platform",      one.platform,  "--out",
          "plan.json",  "--prompt-tokens", "7",           "--new-tokens",
          "4",          "--allreduce",     one.allreduce, "--quiet"};
}

}  // namespace

TEST_CASE("cli/collective: compositions make the tokens of one device and the bytes predicted") {
  const Kitchen bench;
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
  bench.write("prompt.txt", "5 6 7 8 9 10 11");
  bench.write("homes.xml", homes());
  bench.must({"plan", "--model", "tiny", "--strategy", "local", "--platform", "shelf4", "--out",
              "plan.json", "--prompt-tokens", "7", "--new-tokens", "4", "--quiet"});
  const Words run{"run",   "plan.json", "--weights",    "tiny",       "--cache",      "cache",
                  "--out", "run.json",  "--prompt-ids", "prompt.txt", "--ignore-eos", "--quiet"};
  bench.must(run);
  const Json expected = Json::parse(bench.read("run.json"))["tokens"];
  REQUIRE(expected.size() == 4);
  for (const Case& one : std::vector<Case>{{"tensor", "homes.xml", "hierarchical:ring+star"},
                                           {"tensor", "homes.xml", "hierarchical:halving+ring"},
                                           {"tensor", "homes.xml", "hierarchical:ring+halving"},
                                           {"galaxy", "homes.xml", "hierarchical:star+ring,star"},
                                           {"galaxy", "homes.xml", "hierarchical:ring+ring"},
                                           {"sp", "homes.xml", "hierarchical:ring+star"}}) {
    CAPTURE(one.strategy);
    CAPTURE(one.platform);
    CAPTURE(one.allreduce);
    bench.must(plan_words(one));
    bench.must({"simulate", "plan.json", "--out", "predicted.json", "--quiet"});
    Words emulated = run;
    emulated.insert(emulated.end(), {"--emulate", "--pace", "nominal"});
    bench.must(emulated);
    const Json measured = Json::parse(bench.read("run.json"));
    const Json predicted = Json::parse(bench.read("predicted.json"));
    CHECK(measured["tokens"] == expected);
    REQUIRE(measured["devices"].size() > 1);
    for (std::size_t d = 0; d < measured["devices"].size(); ++d)
      CHECK(measured["devices"][d]["bytes_sent"] == predicted["devices"][d]["bytes_sent"]);
  }
}

TEST_CASE("cli/collective: compositions serve prompts of more and fewer rows than devices") {
  const Kitchen bench;
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
  bench.write("homes.xml", homes());
  bench.write(
      "requests.jsonl",
      R"({"id": "a", "arrival_s": 0, "prompt_ids": [5, 6, 7, 8, 9, 10, 11, 12], "new_tokens": 2})"
      "\n"
      R"({"id": "b", "arrival_s": 0, "prompt_ids": [5, 6], "new_tokens": 2})"
      "\n"
      R"({"id": "c", "arrival_s": 0, "prompt_ids": [7], "new_tokens": 2})"
      "\n"
      R"({"id": "d", "arrival_s": 0, "prompt_ids": [7, 9, 12], "new_tokens": 2})"
      "\n");
  const auto serve = [&](const std::string& policy, Words how, const Words& more) {
    how.insert(how.begin(), {"plan", "--model", "tiny", "--workload", "requests.jsonl", "--policy",
                             policy, "--out", "plan.json", "--quiet"});
    bench.must(how);
    Words run{"run",   "plan.json", "--weights",  "tiny",           "--cache",  "cache",
              "--out", "run.json",  "--workload", "requests.jsonl", "--policy", policy};
    run.insert(run.end(), more.begin(), more.end());
    const Outcome outcome = bench.run(run);
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    std::vector<Json> all;
    const Json result = Json::parse(bench.read("run.json"));
    for (const Json& request : result["requests"]) all.push_back(request["tokens"]);
    return all;
  };
  const auto expected = serve("sequential", {"--strategy", "local", "--platform", "shelf4"}, {});
  for (const auto& [strategy, allreduce] :
       std::vector<std::array<std::string, 2>>{{"tensor", "hierarchical:ring+star"},
                                               {"galaxy", "hierarchical:ring+star"},
                                               {"galaxy", "hierarchical:star+halving"},
                                               {"sp", "hierarchical:halving+ring"},
                                               {"sp", "hierarchical:ring+star"}}) {
    CAPTURE(strategy);
    CAPTURE(allreduce);
    // One after another, and, which sp refuses, rows of several sequences in a step.
    for (const std::string policy : {"sequential", "static"}) {
      if (strategy == "sp" && policy == "static") continue;
      CAPTURE(policy);
      CHECK(serve(policy,
                  {"--strategy", strategy, "--platform", "homes.xml", "--allreduce", allreduce},
                  {"--emulate", "--pace", "nominal"}) == expected);
    }
  }
}

TEST_CASE("cli/collective: a composition that no network or name allows is one clear error") {
  const Kitchen bench;
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
  bench.write("homes.xml", homes());
  for (const auto& [platform, allreduce, expected] : std::vector<std::array<std::string, 3>>{
           {"pair.xml", "hierarchical:ring+star", "into groups"},
           {"pair.xml", "star,hierarchical:ring+star", "into groups"},
           {"homes.xml", "hierarchical:comet+star", "hierarchical[:IN+AMONG]"},
           {"homes.xml", "hierarchical:ring+hierarchical", "hierarchical[:IN+AMONG]"},
           {"homes.xml", "hierarchical:ring", "hierarchical[:IN+AMONG]"}}) {
    CAPTURE(platform);
    CAPTURE(allreduce);
    const Outcome outcome = bench.run(plan_words({"tensor", platform, allreduce}));
    CHECK(outcome.code != 0);
    CHECK(outcome.code < 64);
    CHECK(outcome.err.find(expected) != std::string::npos);
    CHECK(outcome.err.find(allreduce.substr(allreduce.find("hier"))) != std::string::npos);
    CHECK(!bench.has("plan.json"));
  }
}

}  // namespace tandem::test::collective_command_test
