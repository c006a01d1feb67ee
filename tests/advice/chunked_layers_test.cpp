// Layers of a pipeline whose prompt is read in chunks: no shares that a user may name are faster
// than those that are searched.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "advice/prompt_chunks.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/search/moved_layers.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/stages.hpp"
#include "sim/replay/replay.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/sampled.hpp"

namespace tandem::test::chunked_layers_test {
namespace {

using planner::Objective;
using planner::Request;
using study::PromptPlan;
using study::PromptReading;

constexpr double kNoGain = 1.0 + 1e-3;

struct Host {
  std::string name;
  double flops_per_s;
  double link_bytes_per_s;
  double link_s;
};

// Hosts as files of SimGrid's users state them: memory of 10 GB/s each, a link each to one switch.
model::Cluster cluster_of(const std::vector<Host>& hosts) {
  std::vector<model::Device> devices;
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  devices.reserve(hosts.size());
  links.reserve(hosts.size());
  edges.reserve(hosts.size());
  for (const Host& host : hosts) {
    devices.push_back({.name = host.name,
                       .flop_rate = model::FlopsPerSecond{host.flops_per_s},
                       .memory_bandwidth = model::BytesPerSecond{1e10},
                       .memory = model::Bytes{8.0 * (1U << 30U)}});
    edges.push_back(
        {.from = host.name,
         .to = "switch",
         .hops = {{static_cast<model::LinkIndex>(links.size()), model::Direction::up}}});
    links.push_back({.name = host.name + "-link",
                     .latency = model::Seconds{host.link_s},
                     .bandwidth = model::BytesPerSecond{host.link_bytes_per_s},
                     .sharing = model::Sharing::split_duplex});
  }
  return {"hosts", devices, {"switch"}, links, edges};
}

Request request_for(model::Transformer transformer, model::Cluster cluster,
                    planner::Workload workload) {
  return {.model = std::move(transformer),
          .cluster = std::move(cluster),
          .strategy = "pipeline",
          .evaluate = sim::evaluate_fair,
          .workload = workload};
}

// Infinite: no plan.
double seconds_with(Request request, const std::string& partition, const PromptReading& reading) {
  request.partition = partition;
  const auto made = study::plan_prompt(request, reading);
  const auto* const found = std::get_if<PromptPlan>(&made);
  return found != nullptr ? found->seconds : std::numeric_limits<double>::infinity();
}

void check_no_better(const Request& request, const std::vector<std::string>& partitions,
                     const PromptReading& reading) {
  const double searched = seconds_with(request, "auto", reading);
  for (const std::string& partition : partitions) {
    CAPTURE(partition);
    CHECK(searched <= seconds_with(request, partition, reading) * kNoGain);
  }
}

std::string speeds_of(const model::Cluster& cluster) {
  std::string text;
  for (const model::Device& device : cluster.devices())
    text += (text.empty() ? "" : ":") + std::to_string(device.flop_rate.value());
  return text;
}

}  // namespace

// Speeds and distances of three sites of Grid'5000. A token passes them at the speed of memory, so
// layers for a whole prompt were 20, 1, 1, which in chunks took a fifth longer than 12, 8, 2.
TEST_CASE("study/chunked layers: three unlike hosts far apart share a prompt by their speeds") {
  const model::Transformer transformer = model::test::named_model("tinyllama-1.1b");
  const Request request = request_for(transformer,
                                      cluster_of({{"adonis", 23.7e9, 1.25e8, 2.5e-3},
                                                  {"graphene", 16.7e9, 1.25e8, 4e-3},
                                                  {"violette", 5.1e9, 1.25e8, 3e-3}}),
                                      {128, 16});
  check_no_better(request, {"equal", "galaxy", "exact", "23:16:5", "12:8:2", "13:7:2", "20:1:1"},
                  {.best = true});
}

// Two hosts of 40 and 30 Gf: 15 and 1 layers took 3.15 s in chunks of 4, 8 and 8 took 2.87 s.
TEST_CASE("study/chunked layers: a given chunk counts where layers are chosen") {
  model::Transformer transformer = model::test::named_model("llama-3.2-1b");
  transformer.formats = model::WeightFormats(model::WeightFormat::q4_0);
  const Request request = request_for(
      transformer, cluster_of({{"a", 40e9, 7.2e6, 7e-4}, {"b", 30e9, 7.2e6, 7e-4}}), {64, 32});
  for (const std::int64_t rows : {4, 16})
    check_no_better(request, {"equal", "galaxy", "exact", "4:3", "9:7", "15:1"}, {.rows = rows});
}

TEST_CASE("study/chunked layers: named shares are no better than auto on random clusters") {
  std::mt19937 random(11);
  const auto number = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
  };
  const auto integer = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  testing::Sampled sampled(4, testing::kTakesMinutes);
  for (int again = 0; again < 24; ++again) {
    std::vector<Host> hosts(static_cast<std::size_t>(integer(2, 4)));
    for (std::size_t d = 0; d < hosts.size(); ++d)
      hosts[d] = {"d" + std::to_string(d), number(1e9, 1e11), number(1e6, 1e9), number(1e-4, 1e-2)};
    model::Transformer transformer = small_model({.layers = integer(5, 14),
                                                  .heads = 8,
                                                  .kv_heads = 4,
                                                  .head_dim = 64,
                                                  .intermediate = 1024});
    transformer.max_context = 4096;
    Request request =
        request_for(transformer, cluster_of(hosts), {integer(16, 160), integer(1, 8)});
    request.objective = again % 3 == 0 ? Objective::ttft : Objective::request;
    const PromptReading reading =
        again % 2 == 0 ? PromptReading{.best = true} : PromptReading{.rows = integer(2, 12)};
    if (!sampled()) continue;
    CAPTURE(again);
    check_no_better(request, {"equal", "galaxy", "exact", speeds_of(request.cluster)}, reading);
  }
}

TEST_CASE("study/chunked layers: a layer that moves leaves all others where they were") {
  const planner::Plan plan = [] {
    Request request = request_for(
        small_model({.layers = 9}),
        cluster_of({{"a", 1e9, 1e8, 1e-3}, {"b", 2e9, 1e8, 1e-3}, {"c", 3e9, 1e8, 1e-3}}), {8, 2});
    request.partition = "3:5:1";
    return std::get<planner::Plan>(planner::make_plan(request));
  }();
  const auto layers_of = [](const planner::Plan& one) {
    const std::vector<planner::Stage> all = planner::stages(one);
    std::vector<std::int64_t> layers;
    layers.reserve(all.size());
    for (const planner::Stage& stage : all) layers.push_back(stage.layers.size());
    return layers;
  };
  REQUIRE(layers_of(plan) == std::vector<std::int64_t>{3, 5, 1});
  const auto moved = planner::with_layer_moved(plan, 0, 2);
  REQUIRE(moved.has_value());
  CHECK(layers_of(*moved) == std::vector<std::int64_t>{2, 5, 2});
  CHECK_NOTHROW(moved->validate());
  CHECK(moved->devices == planner::with_predicted_memory(*moved).devices);
  CHECK(planner::with_layer_moved(*moved, 2, 0) == plan);
  CHECK_FALSE(planner::with_layer_moved(plan, 2, 0).has_value());  // its only layer
  planner::Plan tight = plan;
  tight.cluster = cluster_of({{"a", 1e9, 1e8, 1e-3}, {"b", 2e9, 1e8, 1e-3}, {"c", 3e9, 1e8, 1e-3}});
  std::vector<model::Device> devices = tight.cluster.devices();
  devices[2].memory = model::Bytes{plan.devices[2].memory.total()};
  tight.cluster = {"hosts", devices, tight.cluster.routers(), tight.cluster.links(),
                   tight.cluster.edges()};
  CHECK_FALSE(planner::with_layer_moved(tight, 0, 2).has_value());  // no room
  CHECK(planner::with_layer_moved(tight, 0, 1).has_value());
}

}  // namespace tandem::test::chunked_layers_test
