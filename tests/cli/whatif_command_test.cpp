// tandem whatif.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::whatif_command_test {
namespace {

using Json = nlohmann::json;

TEST_CASE("cli/whatif: says what helps most, and all the rest") {
  const Kitchen bench;
  bench.plan();
  const Outcome told = bench.run({"whatif", "plan.json"});
  CHECK(told.code == 0);
  CHECK(told.err.empty());
  CHECK(told.out.find("most helps to buy: ") != std::string::npos);
  CHECK(told.out.find("'desk' twice as fast") != std::string::npos);
  const Outcome outcome = bench.run({"whatif", "plan.json", "--json", "--evaluator", "analytic"});
  CHECK(outcome.code == 0);
  const Json json = Json::parse(outcome.out);
  CHECK(json.at("unchanged_s") <= json.at("planned_s"));
  bool without = false;
  for (const Json& change : json.at("changes")) {
    CAPTURE(change.dump());
    CHECK(change.at("request_s").is_number() == change.at("obstacle").is_null());
    if (change.at("request_s").is_number()) {
      const double gain =
          1.0 - change.at("request_s").get<double>() / json.at("unchanged_s").get<double>();
      CHECK(change.at("gain_percent").get<double>() == doctest::Approx(100.0 * gain));
    }
    without |= change.at("change") == "without 'sofa'";
  }
  CHECK(without);
}

TEST_CASE("cli/whatif: refuses what is no plan") {
  const Kitchen bench;
  check_refused(bench, {"whatif"}, 2, "plan.json");
  check_refused(bench, {"whatif", "tiny.json"}, 1, "tiny.json");
  check_refused(bench, {"whatif", "absent.json"}, 1, "absent.json");
}

}  // namespace
}  // namespace tandem::test::whatif_command_test
