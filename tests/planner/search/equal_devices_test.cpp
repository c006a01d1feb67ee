#include "planner/search/equal_devices.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/cluster/cluster_edit.hpp"
#include "sim/platform/platform.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/support/plain_clusters.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::planner::equal_devices_test {
namespace {

using Firsts = std::vector<model::DeviceIndex>;

Firsts firsts(const model::Cluster& cluster) {
  std::vector<model::DeviceProfile> profiles;
  for (const model::Device& device : cluster.devices())
    profiles.push_back(model::nominal_profile(device));
  return first_equals(cluster, profiles);
}

model::Cluster platform(const std::string& name) {
  return sim::read_platform(
             tandem::testing::in_sources("scenarios/platforms/" + name + ".xml").string())
      .cluster;
}

TEST_CASE("planner/equal devices: all of a star, but those that differ in speed or in their link") {
  const model::Cluster star = model::test::star(4);
  CHECK(firsts(star) == Firsts{0, 0, 0, 0});
  const auto slow = with_devices(star, [](model::Device& device) {
    if (device.name == "d2") device.memory_bandwidth = model::BytesPerSecond{1e9};
  });
  CHECK(firsts(slow) == Firsts{0, 0, 2, 0});
  int link = 0;
  const auto far = with_links(star, [&](model::Link& one) {
    if (link++ == 1) one.latency = model::Seconds{1.0};
  });
  CHECK(firsts(far) == Firsts{0, 1, 0, 0});
}

TEST_CASE("planner/equal devices: all of a full mesh, but the two ends of a link that differs") {
  for (const int devices : {3, 8, 64}) {
    CAPTURE(devices);
    const model::Cluster mesh = test::mesh_of(devices, 1e-4, 1e9);
    CHECK(firsts(mesh) == Firsts(static_cast<std::size_t>(devices), 0));
    const auto odd = with_links(mesh, [](model::Link& link) {
      if (link.name == "1-2") link.latency = model::Seconds{1.0};
    });
    Firsts expected(static_cast<std::size_t>(devices), 0);
    expected[1] = expected[2] = 1;
    CHECK(firsts(odd) == expected);
  }
}

TEST_CASE("planner/equal devices: those of a node, not those of different nodes") {
  const Firsts found = firsts(platform("a100-8x8"));
  for (std::size_t d = 0; d < found.size(); ++d) {
    CAPTURE(d);
    CHECK(found[d] == static_cast<model::DeviceIndex>(d / 8 * 8));
  }
}

TEST_CASE("planner/equal devices: none of a home's, all of a testbed's") {
  CHECK(firsts(platform("home4")) == Firsts{0, 1, 2, 3});
  CHECK(firsts(platform("klonet8")) == Firsts(8, 0));
}

}  // namespace
}  // namespace tandem::planner::equal_devices_test
