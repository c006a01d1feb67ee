#include "study/steady_state/boundary_points.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "model/base/error.hpp"

namespace tandem::study::testing::boundary_points_test {
namespace {

std::string fault(const std::string& text) {
  try {
    (void)parse_boundary_points(text, "points.csv");
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

const std::string kHeader =
    "window,release,slack,predicted_stall_fraction,replayed_stall_fraction\n";

bool mentions(const std::string& message, const std::string& word) {
  return message.find(word) != std::string::npos && message.find('\n') == std::string::npos;
}

}  // namespace

TEST_CASE("study/boundary points: relative slack is (C - D) / D") {
  SUBCASE("10 s a token, half of it waiting, D = 10: (5 - 10) / 10") {
    CHECK(relative_slack(10.0, 0.5, -5.0) == doctest::Approx(-0.5));
  }
  SUBCASE("6 s a token, no wait, D = 4: (6 - 4) / 4") {
    CHECK(relative_slack(6.0, 0.0, 2.0) == doctest::Approx(0.5));
  }
  SUBCASE("nothing loaded") {
    CHECK_THROWS_AS((void)relative_slack(6.0, 0.0, 6.0), std::logic_error);
  }
}

TEST_CASE("study/boundary points: what is written is read") {
  const std::vector<BoundaryPoint> points{{3, model::ReleaseRule::early, -0.25, 0.25, 0.2613},
                                          {kUnlimited, model::ReleaseRule::late, 0.5, 0.0, 1e-5}};
  CHECK(parse_boundary_points(to_csv(points), "x") == points);
  CHECK(parse_boundary_points(kHeader, "x").empty());
  CHECK(parse_boundary_points(kHeader + "3,early,0.1,0,-0.01\n", "x")[0].replayed_stall_fraction ==
        -0.01);
}

TEST_CASE("study/boundary points: columns in any order, more of them, lines of any system") {
  const auto points = parse_boundary_points(
      "id,slack,release,window,replayed_stall_fraction,predicted_stall_fraction\r\n"
      "a,0.1,late,2,0.5,0.25\r\n\r\n",
      "x");
  REQUIRE(points.size() == 1);
  CHECK(points[0] == BoundaryPoint{2, model::ReleaseRule::late, 0.1, 0.25, 0.5});
}

TEST_CASE("study/boundary points: whatever is wrong costs one line that names it") {
  CHECK(mentions(fault(""), "empty"));
  CHECK(mentions(fault("window,release,slack\n"), "predicted_stall_fraction"));
  CHECK(mentions(fault(kHeader + "3,early,0.1,0.2\n"), "4 fields"));
  CHECK(mentions(fault(kHeader + "0,early,0.1,0.2,0.3\n"), "line 2: window is '0'"));
  CHECK(mentions(fault(kHeader + "99999999999999999999,early,0.1,0.2,0.3\n"), "window"));
  CHECK(mentions(fault(kHeader + "3,soon,0.1,0.2,0.3\n"), "release is 'soon'"));
  CHECK(mentions(fault(kHeader + "3,early,nan,0.2,0.3\n"), "slack is 'nan'"));
  CHECK(mentions(fault(kHeader + "3,early,0.1,1.5,0.3\n"), "predicted_stall_fraction is '1.5'"));
  CHECK(mentions(fault(kHeader + "3,early,0.1,0.5,0.3x\n"), "replayed_stall_fraction is '0.3x'"));
  CHECK(mentions(fault(kHeader + "3,early,0.1,-0.1,0\n"), "predicted_stall_fraction is '-0.1'"));
  CHECK(mentions(fault(kHeader + "3,early,,0.5,0.3\n"), "slack is ''"));
}

}  // namespace tandem::study::testing::boundary_points_test
