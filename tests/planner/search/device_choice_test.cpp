// The fewest devices that hold a plan: none of fewer has one, near devices come first.

#include "planner/search/device_choice.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/cluster/cluster_edit.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::device_choice_test {
namespace {

using planner::FewestDevices;
using planner::Infeasible;
using planner::Request;

constexpr double kMiB = 1024.0 * 1024.0;

// 132 MiB of weights; memory by device in MiB, of which nominal profiles count nothing for the
// program.
Request request_of(const std::string& strategy, const std::vector<double>& memory,
                   std::int64_t prompt = 512) {
  std::vector<DeviceSpec> devices;
  devices.reserve(memory.size());
  for (const double one : memory) devices.push_back({.memory_bytes = one * kMiB});
  model::Transformer transformer = small_model({.layers = 8,
                                                .heads = 8,
                                                .kv_heads = 8,
                                                .head_dim = 64,
                                                .intermediate = 2048,
                                                .vocab = 1000});
  transformer.max_context = 8192;
  return {.model = std::move(transformer),
          .cluster = star_cluster(devices),
          .strategy = strategy,
          .workload = {prompt, 3},
          .window = {.blocks = 0, .retain = {}}};
}

std::vector<std::string> names(const planner::Plan& plan) {
  std::vector<std::string> all;
  for (const model::Device& device : plan.cluster.devices()) all.push_back(device.name);
  return all;
}

bool holds(const Request& request, const std::vector<bool>& used) {
  Request of_these = planner::for_devices(request, used);
  of_these.master = "d0";
  return std::holds_alternative<planner::Plan>(planner::make_plan(of_these));
}

TEST_CASE("planner/device choice: no fewer devices have a plan, whichever they are") {
  std::mt19937 random(11);
  int several = 0;
  for (int round = 0; round < 40; ++round) {
    const std::string strategy = round % 3 == 0 ? "tensor" : round % 3 == 1 ? "pipeline" : "galaxy";
    std::vector<double> memory(4);
    for (double& one : memory) one = std::uniform_real_distribution<double>(60.0, 220.0)(random);
    const Request request = request_of(strategy, memory);
    CAPTURE(round);
    std::size_t fewest = 0;
    for (unsigned set = 0; set < 16; ++set) {
      const auto size = static_cast<std::size_t>(std::popcount(set));
      if (set % 2 == 0 || (fewest > 0 && size >= fewest)) continue;  // d0 is the master
      if (holds(request, {true, (set & 2U) != 0, (set & 4U) != 0, (set & 8U) != 0})) fewest = size;
    }
    const auto found = planner::plan_on_fewest(request, planner::make_plan);
    if (fewest == 0) {
      CHECK(std::get<Infeasible>(found).reason.find("lacks") != std::string::npos);
      continue;
    }
    const auto& few = std::get<FewestDevices>(found);
    CHECK(few.plan.cluster.devices().size() == fewest);
    CHECK(few.fewer.empty() == (fewest == 1));
    if (fewest > 1) ++several;
  }
  CHECK(several > 10);
}

TEST_CASE("planner/device choice: what caches hold dictates the number of devices") {
  // Every device holds the model; keys and values are parted.
  std::size_t before = 1;
  for (const std::int64_t prompt : {500, 2000, 3500, 5000}) {
    const Request request = request_of("spread", {330, 330, 330, 330, 330, 330}, prompt);
    const auto found = planner::plan_on_fewest(request, planner::make_plan);
    CAPTURE(prompt);
    REQUIRE(std::holds_alternative<FewestDevices>(found));
    const std::size_t devices = std::get<FewestDevices>(found).plan.cluster.devices().size();
    CHECK(devices >= before);
    before = devices;
  }
  CHECK(before > 2);
}

TEST_CASE("planner/device choice: weights that are gathered need several devices, or none") {
  const auto devices = [](double memory) {
    Request request = request_of("csps", {memory, memory, memory, memory}, 64);
    request.gather_weights = true;
    const auto found = planner::plan_on_fewest(request, planner::make_plan);
    return std::holds_alternative<FewestDevices>(found)
               ? std::get<FewestDevices>(found).plan.cluster.devices().size()
               : 0;
  };
  CHECK(devices(400) == 1);
  CHECK(devices(110) == 2);
  CHECK(devices(30) == 0);
}

TEST_CASE("planner/device choice: near devices first, then those with most memory") {
  SUBCASE("of equal ones the nearest to the master") {
    Request request = request_of("tensor", {160, 160, 160, 160});
    // d1's link is slow to answer.
    request.cluster = model::with_links(request.cluster, [](model::Link& link) {
      if (link.name == "l1") link.latency = model::Seconds{0.05};
    });
    const auto found = planner::plan_on_fewest(request, planner::make_plan);
    CHECK(names(std::get<FewestDevices>(found).plan) == std::vector<std::string>{"d0", "d2"});
    request.master = "d1";
    const auto other = planner::plan_on_fewest(request, planner::make_plan);
    CHECK(names(std::get<FewestDevices>(other).plan) == std::vector<std::string>{"d0", "d1"});
  }
  SUBCASE("a large one that is last in order") {
    const auto found =
        planner::plan_on_fewest(request_of("tensor", {100, 70, 70, 200}), planner::make_plan);
    CHECK(names(std::get<FewestDevices>(found).plan) == std::vector<std::string>{"d0", "d3"});
  }
  SUBCASE("profiles go with their devices") {
    Request request = request_of("tensor", {160, 70, 70, 160});
    for (const model::Device& device : request.cluster.devices())
      request.profiles.push_back(model::nominal_profile(device));
    const Request few = planner::for_devices(request, {true, false, false, true});
    CHECK(few.profiles ==
          std::vector<model::DeviceProfile>{request.profiles[0], request.profiles[3]});
  }
}

}  // namespace
}  // namespace tandem::test::device_choice_test
