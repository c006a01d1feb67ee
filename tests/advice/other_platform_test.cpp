// A plan on another platform: what is the platform's, and what stays the plan's.

#include "advice/other_platform.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "advice/prediction.hpp"
#include "model/base/error.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "model/predict/stated_profiles.hpp"
#include "planner/search/search.hpp"
#include "sim/platform/platform.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::study::other_platform_test {
namespace {

model::Cluster home4() {
  return sim::read_platform(tandem::testing::in_sources("scenarios/platforms/home4.xml").string())
      .cluster;
}

planner::Plan planned(const model::Cluster& cluster, const std::string& strategy,
                      std::vector<model::DeviceProfile> profiles = {}) {
  auto answer = planner::make_plan(
      {.model = model::test::named_model("tinyllama-1.1b"),
       .cluster = cluster,
       .strategy = strategy,
       .workload = {.prompt_tokens = 16, .new_tokens = 4},
       .profiles = profiles.empty() ? stated_profiles(cluster) : std::move(profiles),
       .window = {.blocks = {}, .retain = {}}});
  REQUIRE(std::holds_alternative<planner::Plan>(answer));
  return std::get<planner::Plan>(std::move(answer));
}

StatedPlatform stated(const model::Cluster& cluster) {
  StatedPlatform platform{.cluster = cluster};
  const std::vector<model::DeviceProfile> profiles = stated_profiles(cluster);
  for (std::size_t d = 0; d < profiles.size(); ++d)
    platform.profiles.emplace(cluster.devices()[d].name, profiles[d]);
  return platform;
}

double seconds(const planner::Plan& plan) {
  return predict(plan, {.intervals = false}).result.metrics.token_times_s.back();
}

// The same hosts in the opposite order, and another one.
model::Cluster rearranged(const model::Cluster& cluster) {
  std::vector<model::Device> devices = cluster.devices();
  std::ranges::reverse(devices);
  std::vector<model::Edge> edges = cluster.edges();
  model::Device other = devices.front();
  other.name = "other";
  devices.insert(devices.begin(), other);
  for (const model::Edge& edge : cluster.edges()) {
    if (edge.from != devices.back().name && edge.to != devices.back().name) continue;
    model::Edge copy = edge;
    (edge.from == devices.back().name ? copy.from : copy.to) = "other";
    edges.push_back(std::move(copy));
    break;
  }
  return {cluster.name(), std::move(devices), cluster.routers(), cluster.links(), std::move(edges)};
}

}  // namespace

TEST_CASE("study/other platform: on its own platform, in any order of hosts, a plan is the same") {
  const model::Cluster cluster = home4();
  for (const char* const strategy : {"tensor", "pipeline", "galaxy"}) {
    CAPTURE(strategy);
    const planner::PlanFile file{.plan = planned(cluster, strategy)};
    CHECK(on_platform(file, stated(cluster)).file == file);
    const planner::Plan moved = on_platform(file, stated(rearranged(cluster))).file.plan;
    CHECK(moved.cluster.devices() == file.plan.cluster.devices());
    CHECK(moved.devices == file.plan.devices);
    CHECK(seconds(moved) == doctest::Approx(seconds(file.plan)).epsilon(1e-9));
  }
}

TEST_CASE("study/other platform: speeds and links are the platform's, shares the plan's") {
  const model::Cluster cluster = home4();
  const planner::PlanFile file{.plan = planned(cluster, "pipeline")};
  model::Cluster fast = with_devices(cluster, [](model::Device& device) {
    device.flop_rate = model::FlopsPerSecond{2.0 * device.flop_rate.value()};
    device.memory_bandwidth = model::BytesPerSecond{2.0 * device.memory_bandwidth.value()};
  });
  fast = with_links(fast, [](model::Link& link) {
    link.bandwidth = model::BytesPerSecond{2.0 * link.bandwidth.value()};
    link.latency = model::Seconds{0.5 * link.latency.value()};
  });
  const MovedPlan moved = on_platform(file, stated(fast));
  for (std::size_t d = 0; d < file.plan.devices.size(); ++d)
    CHECK(moved.file.plan.devices[d].share == file.plan.devices[d].share);
  // All that takes time takes half of it; nominal profiles have no overheads.
  CHECK(seconds(moved.file.plan) == doctest::Approx(0.5 * seconds(file.plan)).epsilon(1e-9));
}

TEST_CASE("study/other platform: measured speeds stay with their devices, by slowdown") {
  const model::Cluster cluster = home4();
  std::vector<model::DeviceProfile> profiles = stated_profiles(cluster);
  profiles[0].source = "a.json, measured on a processor";
  const planner::PlanFile file{.plan = planned(cluster, "tensor", profiles)};
  const model::Cluster other = with_devices(cluster, [](model::Device& device) {
    device.flop_rate = model::FlopsPerSecond{3.0 * device.flop_rate.value()};
    device.slowdown *= 2.0;
  });
  const MovedPlan moved = on_platform(file, stated(other));
  CHECK(moved.measured == std::vector<std::string>{cluster.devices()[0].name});
  CHECK(moved.file.plan.profiles[0] == slowed(file.plan.profiles[0], 2.0));
  CHECK(moved.file.plan.profiles[1] ==
        for_formats(stated_profiles(other)[1], file.plan.model.formats, file.plan.model.cache));

  StatedPlatform shared = stated(cluster);
  shared.shares.emplace(cluster.devices()[0].name, model::DeviceShare{.share = 0.5, .cores = 4});
  CHECK_THROWS_WITH_AS(on_platform(file, shared), doctest::Contains("its profile was measured"),
                       Error);
}

TEST_CASE("study/other platform: missing devices are named, all of them") {
  const model::Cluster cluster = home4();
  const planner::PlanFile file{.plan = planned(cluster, "tensor")};
  const model::Cluster few = first_devices(cluster, 2);
  const std::string missing =
      "'" + cluster.devices()[2].name + "', '" + cluster.devices()[3].name + "'";
  CHECK_THROWS_WITH_AS(on_platform(file, stated(few)),
                       doctest::Contains(("has no device " + missing).c_str()), Error);
}

TEST_CASE("study/other platform: weights that stream need a disk there") {
  const model::Cluster cluster = with_devices(home4(), [](model::Device& device) {
    device.memory = model::Bytes{700e6};
    device.disk_bandwidth = model::BytesPerSecond{1e9};
  });
  const planner::PlanFile file{.plan = planned(cluster, "tensor")};
  REQUIRE(file.plan.streams());
  const model::Cluster none = with_devices(
      cluster, [](model::Device& device) { device.disk_bandwidth = model::BytesPerSecond{0.0}; });
  CHECK_THROWS_WITH_AS(on_platform(file, stated(none)), doctest::Contains("has no disk"), Error);
}

}  // namespace tandem::study::other_platform_test
