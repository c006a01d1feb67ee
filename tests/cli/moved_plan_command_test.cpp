// tandem simulate PLAN --platform P, and results of several plans side by side.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::moved_plan_command_test {
namespace {

using Json = nlohmann::json;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A plan of a split by hand, so that the same split is planned for any platform.
std::vector<std::string> plan_words(const std::string& platform, const std::string& out) {
  return {"plan",   "--platform",      platform,    "--model",      "tiny.json", "--partition",
          "1:1",    "--devices",       "desk,sofa", "--master",     "desk",      "--head",
          "master", "--prompt-tokens", "5",         "--new-tokens", "4",         "--out",
          out};
}

// pair.xml with another network, disks of other hosts, and its hosts in another order.
std::string other_pair(const Kitchen& bench) {
  std::string text = replaced(bench.read("pair.xml"), "latency=\"1ms\"", "latency=\"7ms\"");
  const std::size_t first = text.find("<host ");
  const std::size_t second = text.find("<host ", first + 1);
  const std::size_t end = text.find("<link ");
  return text.substr(0, first) + text.substr(second, end - second) +
         replaced(text.substr(first, second - first), "20Gf", "5Gf") + text.substr(end);
}

double ttft(const Kitchen& bench, const std::vector<std::string>& words) {
  const Outcome outcome = bench.run(words);
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  return Json::parse(outcome.out)["metrics"]["ttft_s"];
}

}  // namespace

TEST_CASE("cli/simulate: a plan on another platform is as one with its split made for that") {
  const Kitchen bench;
  bench.write("other.xml", other_pair(bench));
  bench.must(plan_words("pair.xml", "plan.json"));
  const std::string before = bench.read("plan.json");
  bench.must(plan_words("other.xml", "other.json"));
  const double expected = ttft(bench, {"simulate", "other.json", "--json"});
  CHECK(ttft(bench, {"simulate", "plan.json", "--platform", "other.xml", "--json"}) ==
        doctest::Approx(expected).epsilon(1e-9));
  CHECK(ttft(bench, {"simulate", "plan.json", "--json"}) < 0.9 * expected);
  CHECK(ttft(bench, {"simulate", "plan.json", "--platform", "pair.xml", "--json"}) ==
        ttft(bench, {"simulate", "plan.json", "--json"}));
  CHECK(bench.read("plan.json") == before);
  const Outcome outcome = bench.run({"simulate", "plan.json", "--platform", "other.xml"});
  CHECK(has(outcome.err, "stay the plan's"));
  CHECK(
      bench.run({"simulate", "plan.json", "--platform", "other.xml", "--quiet", "--out", "r.json"})
          .err.empty());
  CHECK(Json::parse(bench.read("r.json"))["environment"]["planned_for"] == "pair");
}

TEST_CASE("cli/simulate: what a platform lacks for a plan is named") {
  const Kitchen bench;
  bench.must(plan_words("pair.xml", "plan.json"));
  bench.write("one.xml", replaced(bench.read("pair.xml"), "<host id=\"sofa\"", "<host id=\"bed\""));
  bench.write("one.xml", replaced(bench.read("one.xml"), "dst=\"sofa\"", "dst=\"bed\""));
  check_refused(bench, {"simulate", "plan.json", "--platform", "one.xml"}, 1,
                "has no device 'sofa', expected each of 'desk', 'sofa'; it has 'desk', 'bed'");
  bench.write("small.xml", replaced(bench.read("pair.xml"), "\"2GiB\"", "\"43.7MiB\""));
  const Outcome small = bench.run({"simulate", "plan.json", "--platform", "small.xml"});
  CHECK(small.code == 1);
  CHECK(has(small.err, "on device sofa, expected at most its budget of 43.7 MiB"));
  check_refused(bench, {"simulate", "plan.json", "--default", "memory=1GiB"}, 2,
                "flag '--default' has no effect without '--platform'");
  check_refused(bench,
                {"simulate", "plan.json", "--platform", "pair.xml", "--schedule", "plan.json"}, 2,
                "flag '--schedule' has no effect with '--platform'");
  // What the file does not state is given as to plan.
  std::string bare =
      replaced(bench.read("pair.xml"), "<prop id=\"tandem:memory\" value=\"2GiB\"/>", "");
  bench.write("bare.xml", bare);
  CHECK(ttft(bench, {"simulate", "plan.json", "--platform", "bare.xml", "--default", "memory=2GiB",
                     "--json"}) == ttft(bench, {"simulate", "plan.json", "--json"}));
}

TEST_CASE("cli/compare: predictions of several plans have ratios") {
  const Kitchen bench;
  bench.write("other.xml", other_pair(bench));
  bench.must(plan_words("pair.xml", "plan.json"));
  bench.must({"simulate", "plan.json", "--out", "here.json", "--quiet"});
  bench.must(
      {"simulate", "plan.json", "--platform", "other.xml", "--out", "there.json", "--quiet"});
  const Outcome outcome = bench.run({"compare", "here.json", "there.json", "--out", "c"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(has(outcome.out, "ratio"));
  CHECK(has(outcome.out, "ratios are to predicted (here)"));
  CHECK_FALSE(has(outcome.out, "deviat"));
  CHECK_FALSE(has(outcome.out, "="));
  CHECK(has(outcome.err, "predicted (there): strategy tensor, tiny on pair, planned_for pair"));
  const std::string row = outcome.out.substr(outcome.out.find("ttft"));
  const double here = Json::parse(bench.read("here.json"))["metrics"]["ttft_s"];
  const double there = Json::parse(bench.read("there.json"))["metrics"]["ttft_s"];
  const double shown = std::stod(row.substr(row.find("x ") + 2));
  CHECK(shown == doctest::Approx(there / here).epsilon(0.01));
  // A run of one plan says nothing of the prediction of another.
  bench.write("run.json", as_measured(bench.read("there.json")));
  check_refused(bench, {"compare", "here.json", "run.json", "--out", "c"}, 1, "different plans");
}

}  // namespace tandem::test::moved_plan_command_test
