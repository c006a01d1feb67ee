#include "model/report/largest_deviation.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/model/comparison_fixtures.hpp"

namespace tandem::test::largest_deviation_test {
namespace {

using model::LaneKind;
using model::largest_deviation;
using model::Result;

Result with(const std::vector<model::DeviceMetrics>& devices) {
  Result result = result_of(model::ResultOrigin::measured, {1.0});
  result.devices = devices;
  return result;
}

}  // namespace

TEST_CASE("model/largest deviation: of lanes beyond the bound, the one of most seconds") {
  const Result predicted =
      with({{.name = "desk", .busy_cpu_s = 10.0, .busy_disk_s = 1.0, .busy_channel_s = 1e-3},
            {.name = "sofa", .busy_cpu_s = 2.0, .busy_channel_s = 3.0}});
  SUBCASE("equal: none") { CHECK_FALSE(largest_deviation(predicted, predicted, 0.0)); }
  Result run = predicted;
  run.devices[0].busy_cpu_s = 10.5;      // most seconds, less than 10%
  run.devices[0].busy_channel_s = 2e-3;  // most percent, a millisecond
  run.devices[1].busy_channel_s = 3.4;
  SUBCASE("beyond 10%: 3 against 3.4 s") {
    const auto found = largest_deviation(predicted, run, 10.0);
    REQUIRE(found);
    CHECK(found->device == "sofa");
    CHECK(found->lane == LaneKind::channel);
    CHECK(found->percent() == doctest::Approx(100.0 * (3.0 - 3.4) / 3.4));
  }
  SUBCASE("whatever the percentage: 10 against 10.5 s") {
    const auto found = largest_deviation(predicted, run, 0.0);
    REQUIRE(found);
    CHECK(found->device == "desk");
    CHECK(found->lane == LaneKind::cpu);
  }
  SUBCASE("a lane that the run did not use deviates infinitely") {
    run = predicted;
    run.devices[0].busy_disk_s = 0.0;
    const auto found = largest_deviation(predicted, run, 10.0);
    REQUIRE(found);
    CHECK(found->lane == LaneKind::disk);
    CHECK(std::isinf(found->percent()));
  }
  SUBCASE("devices of one result only, and lost ones, are left out") {
    run = predicted;
    run.devices[0].name = "other";
    run.devices[1].busy_cpu_s = std::nan("");
    CHECK_FALSE(largest_deviation(predicted, run, 0.0));
  }
}

}  // namespace tandem::test::largest_deviation_test
