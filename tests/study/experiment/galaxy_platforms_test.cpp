// The platforms of Galaxy's environments beside the testbed that its tables are made with.

#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>

#include "model/base/csv.hpp"
#include "model/cluster/cluster.hpp"
#include "sim/platform/platform.hpp"
#include "study/experiment/galaxy_testbed.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::study::galaxy_platforms_test {
namespace {

Scenarios papers() {
  Scenarios some;
  some.paper = [](const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(testing::in_sources("scenarios/experiments/" + name + ".csv")).rdbuf();
    return model::parse_csv(text.str(), name);
  };
  return some;
}

}  // namespace

TEST_CASE("study/galaxy platforms: galaxy-A to galaxy-F are the paper's environments") {
  constexpr double kRate = 7.5e9;  // of a Nano-M, as galaxy-table1 fits it
  constexpr double kMbps = 125.0;
  const GalaxyTestbed testbed{kRate};
  for (const std::string environment : {"A", "B", "C", "D", "E", "F"}) {
    CAPTURE(environment);
    const model::Cluster expected = testbed.cluster(papers(), environment, kMbps);
    const model::Cluster read =
        sim::read_platform(
            testing::in_sources("scenarios/platforms/galaxy-" + environment + ".xml").string())
            .cluster;
    REQUIRE(read.size() == expected.size());
    for (model::DeviceIndex a = 0; a < read.size(); ++a) {
      const model::Device& device = read.devices()[static_cast<std::size_t>(a)];
      const model::Device& of = expected.devices()[static_cast<std::size_t>(a)];
      CHECK(device.memory.value() == of.memory.value());
      CHECK(device.memory_bandwidth.value() == of.memory_bandwidth.value());
      CHECK(device.flop_rate.value() == doctest::Approx(of.flop_rate.value()).epsilon(1e-4));
      CHECK(device.slowdown * device.flop_rate.value() == doctest::Approx(192e9).epsilon(1e-3));
      for (model::DeviceIndex b = 0; b < read.size(); ++b) {
        if (a == b) continue;
        CHECK(read.route(a, b).latency.value() == expected.route(a, b).latency.value());
        CHECK(read.route(a, b).bandwidth.value() == expected.route(a, b).bandwidth.value());
      }
    }
  }
}

}  // namespace tandem::study::galaxy_platforms_test
