// tandem simulate --goal, as a user has it.

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::rates_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Service : public Kitchen {
 public:
  Service() {
    must({"workload", "--requests", "12", "--rate", "20", "--prompt-tokens", "4:8", "--new-tokens",
          "3:6", "--out", "drawn.jsonl"});
    must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--strategy", "tensor",
          "--workload", "drawn.jsonl", "--policy", "continuous", "--chunk", "4", "--out",
          "served.json", "--quiet"});
  }
  [[nodiscard]] Json rates(const Words& more) const {
    Words words{"simulate", "served.json", "--json", "--goal"};
    words.insert(words.end(), more.begin(), more.end());
    return Json::parse(good(words));
  }
};

// The same requests, all at the beginning.
std::string at_once(const std::string& workload) {
  std::istringstream lines(workload);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    Json request = Json::parse(line);
    request["arrival_s"] = 0.0;
    text += request.dump() + '\n';
  }
  return text;
}

}  // namespace

TEST_CASE("cli/rates: points are those of simulate at that rate, and the goal is met up to it") {
  const Service bench;
  // A goal that half of the requests meet if all arrive together.
  bench.write("together.jsonl", at_once(bench.read("drawn.jsonl")));
  const Json all = Json::parse(
      bench.good({"simulate", "served.json", "--workload", "together.jsonl", "--json"}));
  std::vector<double> times;
  for (const Json& request : all["requests"]) times.push_back(request["ttft_s"]);
  std::ranges::sort(times);
  const std::string goal =
      "ttft=" + std::to_string(1e6 * (times[5] + times[6]) / 2) + "us,share=75%";
  const Json rates = bench.rates({goal, "--policy", "all"});
  CHECK(rates["schema"] == "tandem.rates/1");
  CHECK(rates["goal"]["share"] == 0.75);
  REQUIRE(rates["policies"].size() == 5);
  bool bracketed = false;
  for (const Json& policy : rates["policies"]) {
    CAPTURE(policy["policy"]);
    for (const Json& point : policy["points"])
      CHECK(point["ttft_s"]["p50"].get<double>() <= point["ttft_s"]["p90"].get<double>());
    if (policy["highest_rate_per_s"].is_null() || policy["fails_at_per_s"].is_null()) continue;
    bracketed = true;
    const double highest = policy["highest_rate_per_s"];
    CHECK(policy["fails_at_per_s"].get<double>() > highest);
    CHECK(policy["fails_at_per_s"].get<double>() <= 1.0101 * highest);
    for (const Json& point : policy["points"])
      if (point["rate_per_s"] == highest) CHECK(point["within_goal"].get<double>() >= 0.75);
  }
  CHECK(bracketed);
}

TEST_CASE("cli/rates: no rate within the goal is exit code 3, with the reason") {
  const Service bench;
  const Outcome outcome = bench.run({"simulate", "served.json", "--goal", "ttft=1ns"});
  CHECK(outcome.code == 3);
  CHECK(outcome.out.find("continuous: none: the goal fails at") != std::string::npos);
}

TEST_CASE("cli/rates: flags and workloads that have no rate are refused") {
  const Service bench;
  check_refused(bench, {"simulate", "served.json", "--goal", "ttft=2"}, 1, "flag '--goal'");
  check_refused(bench, {"simulate", "served.json", "--goal", "share=90%"}, 1, "ttft=2s");
  check_refused(bench, {"simulate", "served.json", "--figure", "x"}, 2, "'--goal'");
  check_refused(bench, {"simulate", "served.json", "--goal", "ttft=2s", "--trace", "t.json"}, 2,
                "--trace");
  bench.plan();
  check_refused(bench, {"simulate", "plan.json", "--goal", "ttft=2s"}, 2, "--workload");
  bench.write("together.jsonl", at_once(bench.read("drawn.jsonl")));
  check_refused(bench,
                {"simulate", "served.json", "--goal", "ttft=2s", "--workload", "together.jsonl"}, 1,
                "arrive at one time");
}

}  // namespace tandem::test::rates_command_test
