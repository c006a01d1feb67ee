// CSPS's prompts as its experiments simulate them.

#include "study/experiment/csps_testbed.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/cluster/cluster_edit.hpp"
#include "planner/collective/proximity.hpp"
#include "sim/platform/platform.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::study::csps_testbed_test {
namespace {

constexpr std::int64_t kLayers = 10;

CspsTestbed testbed() {
  CspsTestbed all{.servers = model::with_devices(
                      sim::read_platform(
                          tandem::testing::in_sources("scenarios/platforms/a100-8x8.xml").string())
                          .cluster,
                      [](model::Device& device) { device.memory = model::Bytes{1e15}; })};
  all.efficiency = 0.5;
  return all;
}

Scenarios scenarios() {
  Scenarios some;
  some.model = [](const std::string& name) {
    return model::test::named_model(name).first_layers(kLayers);
  };
  return some;
}

}  // namespace

TEST_CASE("study/csps: levels are those that the testbed's network tells apart") {
  const CspsTestbed servers = testbed();
  for (const std::size_t devices : std::vector<std::size_t>{2, 7, 8, 9, 16}) {
    CAPTURE(devices);
    constexpr std::size_t kAny = 6;
    CHECK(csps_levels(devices) ==
          planner::nested_groups(servers.cluster(devices), 0, kAny).size() + 2);
  }
}

TEST_CASE("study/csps: ratios that halve what is kept drop the tokens that are asked for") {
  CHECK(csps_halving(1, 40, 0.22).dense());
  CHECK(csps_dropped(CspsDrop{{0.5}}, 40) == doctest::Approx(0.5 / 2 * 37 / 40));
  CHECK(csps_dropped(CspsDrop{{0.4, 0.7}}, 40) == doctest::Approx(1.1 / 3 * 37 / 40));
  for (const std::size_t levels : std::vector<std::size_t>{2, 3}) {
    for (const std::int64_t layers : {32, 40}) {
      const CspsDrop drop = csps_halving(levels, layers, 0.22);
      CAPTURE(levels);
      CAPTURE(layers);
      CHECK(csps_dropped(drop, layers) == doctest::Approx(0.22));
      REQUIRE(drop.ratios.size() + 1 == levels);
      if (levels > 2) CHECK(1.0 - drop.ratios[1] == doctest::Approx((1.0 - drop.ratios[0]) / 2.0));
    }
  }
}

TEST_CASE("study/csps: a few layers tell what all take, levels and dropping included") {
  const CspsTestbed servers = testbed();
  const Scenarios some = scenarios();
  for (const std::int64_t devices : {3, 9}) {
    const std::int64_t tokens = devices * kCspsPartition;
    const std::size_t farther = csps_levels(static_cast<std::size_t>(devices)) - 1;
    for (const CspsDrop& drop : {CspsDrop{}, CspsDrop{std::vector<double>(farther)},
                                 csps_halving(farther + 1, kLayers, 0.22)}) {
      const auto pass = [&](CspsLayers layers) {
        return csps_pass(some, servers, "glm-4", CspsPrefill::ntp, tokens, drop, layers);
      };
      const CspsPass few = pass(CspsLayers::few);
      const CspsPass all = pass(CspsLayers::all);
      CAPTURE(devices);
      CAPTURE(drop.ratios.size());
      CHECK(few.ttft_s == doctest::Approx(all.ttft_s).epsilon(1e-3));
      CHECK(few.sent_bytes == doctest::Approx(all.sent_bytes).epsilon(1e-12));
      CHECK(few.attention == doctest::Approx(all.attention).epsilon(1e-3));
      CHECK(few.choosing == doctest::Approx(all.choosing).epsilon(1e-3));
      CHECK(few.communication == doctest::Approx(all.communication).epsilon(1e-2));
    }
  }
}

}  // namespace tandem::study::csps_testbed_test
