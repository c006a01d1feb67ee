#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::propositions_command_test {
namespace {

using Json = nlohmann::json;

constexpr const char* kPoints =
    "window,release,slack,predicted_stall_fraction,replayed_stall_fraction\n"
    "3,early,-0.3,0.3,0.31\n3,early,0.2,0,0.01\n";

}  // namespace

TEST_CASE("cli/propositions: begins with the paper's worked example") {
  const Workbench bench("tandem-study");
  const Outcome outcome = bench.run({"propositions", "--draws", "500", "--simulations", "0"});
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  const std::string first = outcome.out.substr(0, outcome.out.find('\n'));
  CHECK(first.find("11, t_ffn 17, t_ar 14, tau_attn 18, tau_ffn 30 ms") != std::string::npos);
  CHECK(first.find("tight fails (25 < 30)") != std::string::npos);
  CHECK(first.find("loose holds (56 >= 48)") != std::string::npos);
  CHECK(first.find("after a stall of 5 ms") != std::string::npos);
  CHECK(outcome.out.find("unexplained: 0") != std::string::npos);
}

TEST_CASE("cli/propositions: every disagreement is explained, every closed form exact") {
  const Workbench bench("tandem-study");
  const Outcome outcome = bench.run(
      {"propositions", "--draws", "5000", "--simulations", "30", "--seed", "7", "--json"});
  REQUIRE(outcome.code == 0);
  const Json json = Json::parse(outcome.out);
  CHECK(json.at("sound") == true);
  REQUIRE(json.at("conditions").size() == 7);
  for (const Json& condition : json.at("conditions")) {
    CAPTURE(condition.at("name").get<std::string>());
    CHECK(condition.at("draws") == 5000);
    CHECK(condition.at("unexplained") == 0);
    std::int64_t draws = 0;
    for (const Json& entry : condition.at("classes")) {
      draws += entry.at("draws").get<std::int64_t>();
      CHECK((entry.at("says") == entry.at("recurrence")) == entry.at("breaks").is_null());
    }
    CHECK(draws == 5000);
  }
  // Proposition 3 holds for every window of three and more of devices that are alike.
  for (const Json& entry : json.at("conditions")[0].at("classes"))
    if (entry.at("devices") == "alike" && entry.at("window") != "1" && entry.at("window") != "2")
      CHECK(entry.at("breaks").is_null());
  for (const Json& form : json.at("token_times")) CHECK(form.at("different") == 0);
  CHECK(json.at("simulations").at("draws") == 30);
  CHECK(json.at("simulations").at("different") == 0);
  CHECK(json.at("simulations").at("worst_relative_difference") <= 1e-9);
}

TEST_CASE(
    "cli/propositions: the same seed gives the same files, and points are a series of theirs") {
  const Workbench bench("tandem-study");
  bench.write("points.csv", kPoints);
  for (const char* folder : {"a", "b"}) {
    const Outcome outcome = bench.run({"propositions", "--draws", "300", "--simulations", "3",
                                       "--points", "points.csv", "--out", folder});
    CHECK(outcome.code == 0);
    CHECK(outcome.out.find("replayed: 2 points, stall fraction at most 1.0 points") !=
          std::string::npos);
  }
  for (const char* file : {"classes.csv", "simulations.csv", "boundary.csv"}) {
    CAPTURE(file);
    CHECK(bench.read(std::string("a/") + file) == bench.read(std::string("b/") + file));
  }
  CHECK(bench.read("a/boundary.csv").find("replayed,3,early,-0.3,0.31") != std::string::npos);
  CHECK(bench.has("a/boundary.png"));
  CHECK(bench.has("a/boundary.svg"));
}

TEST_CASE("cli/propositions: what makes no sense is refused in one line") {
  const Workbench bench("tandem-study");
  bench.write("points.csv", "window,release\n3,early\n");
  check_refused(bench, {"propositions", "--draws", "0"}, 1, "--draws");
  check_refused(bench, {"propositions", "--simulations", "-1"}, 1, "--simulations");
  check_refused(bench, {"propositions", "--json", "--quiet"}, 2, "contradict");
  check_refused(bench, {"propositions", "--points", "none.csv"}, 1, "none.csv");
  check_refused(bench, {"propositions", "--points", "points.csv", "--out", "x"}, 1, "slack");
  check_refused(bench, {"propositions", "extra"}, 2, "extra");
  // What it would write is what it reads.
  bench.write("points/boundary.csv", kPoints);
  check_refused(bench, {"propositions", "--points", "points/boundary.csv", "--out", "points"}, 2,
                "'--points'");
}

}  // namespace tandem::test::propositions_command_test
