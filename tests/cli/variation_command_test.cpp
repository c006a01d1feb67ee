// tandem simulate on platforms where something varies, as a user runs it.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::variation_command_test {
namespace {

using Json = nlohmann::json;

// The kitchen's platform with a mean delay by chance on its link, and a plan over it.
void plan_with_jitter(const Kitchen& bench) {
  const std::string link = R"(sharing_policy="SPLITDUPLEX")";
  bench.write("pair.xml", replaced(bench.read("pair.xml"), link + "/>",
                                   link + R"(><prop id="tandem:jitter" value="5ms"/></link>)"));
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--strategy", "tensor",
              "--prompt-tokens", "5", "--new-tokens", "4", "--out", "plan.json"});
}

double ttft(const Kitchen& bench, const std::string& seed) {
  return Json::parse(
      bench.good({"simulate", "plan.json", "--json", "--seed", seed}))["metrics"]["ttft_s"];
}

}  // namespace

TEST_CASE(
    "cli/simulate: a seed repeats its run, and repetitions tell the spread over their seeds") {
  const Kitchen bench;
  plan_with_jitter(bench);
  const double fourth = ttft(bench, "4");
  CHECK(ttft(bench, "4") == fourth);
  CHECK(ttft(bench, "5") != fourth);
  const Json result = Json::parse(
      bench.good({"simulate", "plan.json", "--json", "--seed", "4", "--repetitions", "3"}));
  CHECK(double{result["metrics"]["ttft_s"]} == fourth);
  CHECK(result["environment"]["seed"] == "4");
  CHECK(result["environment"]["repetitions"] == "3");
  const std::string spread = result["environment"]["repetitions: time to first token, s"];
  const double mean = (fourth + ttft(bench, "5") + ttft(bench, "6")) / 3.0;
  REQUIRE(spread.rfind("mean ", 0) == 0);
  CHECK(std::stod(spread.substr(5)) == doctest::Approx(mean).epsilon(1e-8));
  const std::string table =
      bench.good({"simulate", "plan.json", "--seed", "4", "--repetitions", "3"});
  CHECK(table.find("over 3 repetitions from seed 4") != std::string::npos);
}

TEST_CASE("cli/plan: says what varies, as planning takes no account of it") {
  const Kitchen bench;
  plan_with_jitter(bench);
  const std::vector<std::string> words{"plan",      "--platform", "pair.xml",  "--model",
                                       "tiny.json", "--out",      "again.json"};
  const std::string text = bench.good(words);
  CHECK(text.find("link 'cable': jitter") != std::string::npos);
  CHECK(text.find("as if nothing varied (link 'cable': jitter).") != std::string::npos);
}

TEST_CASE("cli/sweep: a point that varies has no analytic prediction") {
  const Kitchen bench;
  plan_with_jitter(bench);
  bench.must({"sweep", "--platform", "pair.xml", "--model", "tiny.json", "--vary",
              "workload.prompt_tokens=3", "--evaluator", "analytic", "--out", "sweep.csv"});
  CHECK(bench.read("sweep.csv").find("simgrid") != std::string::npos);
}

TEST_CASE("cli/simulate: what varies needs SimGrid, and seeds need what varies") {
  const Kitchen bench;
  bench.plan();
  check_refused(bench, {"simulate", "plan.json", "--seed", "2"}, 2, "left to chance");
  check_refused(bench, {"simulate", "plan.json", "--repetitions", "2"}, 2, "tandem:jitter");
  plan_with_jitter(bench);
  check_refused(bench, {"simulate", "plan.json", "--evaluator", "analytic"}, 1, "simgrid");
  check_refused(bench, {"simulate", "plan.json", "--repetitions", "0"}, 1, "repetitions");
}

}  // namespace tandem::test::variation_command_test
