// tandem platform city, as a user runs it.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::city_command_test {
namespace {

using Json = nlohmann::json;

}  // namespace

TEST_CASE("cli/platform city: the same arguments give the same file, which is a platform") {
  const Kitchen bench;
  const std::string text =
      bench.good({"platform", "city", "--homes", "3", "--devices-per-home", "2", "--seed", "7"});
  CHECK(bench.good({"platform", "city", "--homes", "3", "--seed", "7"}) == text);
  CHECK(bench.good({"platform", "city", "--homes", "3", "--seed", "8"}) != text);
  CHECK(
      bench.good({"platform", "city", "--homes", "3", "--seed", "7", "--out", "city.xml"}).empty());
  CHECK(bench.read("city.xml") == text);
  const Json platform = Json::parse(bench.good({"platform", "city.xml", "--json"}));
  CHECK(platform["devices"].size() == 6);
}

TEST_CASE("cli/platform city: a model is planned and predicted over its homes") {
  const Kitchen bench;
  bench.must({"platform", "city", "--homes", "2", "--devices-per-home", "1", "--out", "city.xml"});
  bench.must({"plan", "--platform", "city.xml", "--model", "tiny.json", "--strategy", "tensor",
              "--prompt-tokens", "5", "--new-tokens", "4", "--out", "plan.json"});
  const auto ttft = [&](const std::string& evaluator) -> double {
    return Json::parse(bench.good(
        {"simulate", "plan.json", "--json", "--evaluator", evaluator}))["metrics"]["ttft_s"];
  };
  // One device a home: no two messages share a line.
  CHECK(ttft("simgrid") == doctest::Approx(ttft("analytic")).epsilon(1e-9));
}

TEST_CASE("cli/platform city: what is out of range is refused and nothing is written") {
  const Kitchen bench;
  const auto refused = [&](const std::string& homes, const std::string& devices,
                           const std::string& expected) {
    check_refused(
        bench,
        {"platform", "city", "--homes", homes, "--devices-per-home", devices, "--out", "city.xml"},
        1, expected);
  };
  refused("0", "2", "homes");
  refused("4097", "1", "4096");
  refused("two", "2", "homes");
  refused("2", "65", "64");
  refused("4096", "2", "4096");
  check_refused(bench, {"platform", "city"}, 2, "--homes");
  check_refused(bench, {"platform", "city", "--homes", "2", "--out", "none/city.xml"}, 1, "none");
}

}  // namespace tandem::test::city_command_test
