// The platforms that come with tandem.

#include <doctest/doctest.h>

#include <string>

#include "sim/platform/platform.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::sim::platform_scenarios_test {
namespace {

Platform scenario(const std::string& name) {
  return read_platform(
      tandem::testing::in_sources("scenarios/platforms/" + name + ".xml").string());
}

}  // namespace

TEST_CASE("sim/platform: every scenario loads") {
  for (const std::string name : {"a100-8x8", "flat3", "four-boxes", "home4", "klonet8", "laptops4",
                                 "nuc-pair", "plain", "shelf4", "single", "single-boards"}) {
    CAPTURE(name);
    CHECK_NOTHROW(scenario(name));
  }
}

TEST_CASE("sim/platform: a100-8x8 is NVLink within a server and its 400 Gbps without") {
  const model::Cluster cluster = scenario("a100-8x8").cluster;
  REQUIRE(cluster.size() == 64);
  for (model::DeviceIndex a = 0; a < 64; ++a) {
    for (model::DeviceIndex b = 0; b < 64; ++b) {
      if (a == b) continue;
      const bool inside = a / 8 == b / 8;
      CHECK(cluster.route(a, b).latency.value() == doctest::Approx(inside ? 2e-6 : 16e-6));
      CHECK(cluster.route(a, b).bandwidth.value() == doctest::Approx(inside ? 300e9 : 50e9));
    }
  }
}

TEST_CASE("sim/platform: klonet8 is 4 ms and 300 Mbps between any two devices") {
  const model::Cluster cluster = scenario("klonet8").cluster;
  REQUIRE(cluster.size() == 8);
  for (model::DeviceIndex a = 0; a < 8; ++a) {
    for (model::DeviceIndex b = 0; b < 8; ++b) {
      if (a == b) continue;
      CHECK(cluster.route(a, b).latency.value() == doctest::Approx(4e-3));
      CHECK(cluster.route(a, b).bandwidth.value() == doctest::Approx(37.5e6));
    }
  }
}

TEST_CASE(
    "sim/platform: home4, flat3 and shelf4 can be emulated on two cores: 1 / slowdown sums to at "
    "most 1.3") {
  for (const std::string name : {"home4", "flat3", "shelf4"}) {
    CAPTURE(name);
    const model::Cluster cluster = scenario(name).cluster;
    REQUIRE(cluster.size() == (name == "flat3" ? 3 : 4));
    double cores = 0.0;
    const model::Device& first = cluster.devices()[0];
    for (const model::Device& device : cluster.devices()) {
      cores += 1.0 / device.slowdown;
      // Nominal rates are those of one machine, slowed.
      CHECK(device.flop_rate.value() * device.slowdown ==
            doctest::Approx(first.flop_rate.value() * first.slowdown));
      CHECK(device.memory_bandwidth.value() * device.slowdown ==
            doctest::Approx(first.memory_bandwidth.value() * first.slowdown));
    }
    CHECK(cores <= 1.3);
  }
}

TEST_CASE("sim/platform: a plain SimGrid file has every default stated") {
  const Platform platform = scenario("plain");
  REQUIRE(platform.cluster.size() == 3);
  CHECK(platform.defaults.size() == 4);
  // Numbers without units are SimGrid's: flops and bytes a second, seconds.
  CHECK(platform.cluster.devices()[2].flop_rate.value() == doctest::Approx(48492000.0));
  CHECK(platform.cluster.devices()[2].disk_bandwidth.value() == doctest::Approx(180e6));
  CHECK(platform.cluster.route(0, 2).latency.value() == doctest::Approx(1.059904e-3));
  CHECK(platform.cluster.route(0, 2).bandwidth.value() == doctest::Approx(8158250.0));
  CHECK(platform.cluster.route(2, 0).latency.value() == doctest::Approx(2.059904e-3));
}

}  // namespace tandem::sim::platform_scenarios_test
