// Sparse attention of galaxy: places are ranks, what is computed, and that nothing more is sent.

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/work.hpp"
#include "planner/bounds/bound.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/sparse_requests.hpp"

namespace tandem::test::galaxy_sparse_test {
namespace {

using model::Range;
using model::Task;
using model::TaskKind;
using planner::Plan;
using planner::SparseRequest;

planner::Request request_of(const model::Cluster& cluster, SparseRequest sparse,
                            planner::Workload workload = {40, 4}) {
  return sparse_request("galaxy", cluster, sparse, workload);
}
model::TaskGraph prompt_of(const Plan& plan) {
  return planner::find_strategy("galaxy").lower(plan, planner::prompt_batch(plan.workload));
}

double flops(const Plan& plan, std::int32_t layer, TaskKind kind) {
  const model::TaskGraph prompt = prompt_of(plan);
  double all = 0.0;
  for (const Task& task : prompt.tasks()) {
    if (task.kind == kind && task.layer == layer)
      all += model::work_of(plan.model, prompt.batch(), task).flops;
  }
  return all;
}

std::vector<double> sent(const Plan& plan) {
  std::vector<double> bytes(plan.devices.size());
  const model::TaskGraph graph = prompt_of(plan);
  for (const Task& task : graph.tasks()) {
    if (task.kind == TaskKind::transfer)
      bytes[static_cast<std::size_t>(task.device)] +=
          static_cast<double>(model::payload_bytes(task));
  }
  return bytes;
}

Plan dense(Plan plan) {
  plan.sparse.reset();
  plan = planner::with_predicted_memory(std::move(plan));
  plan.validate();
  return plan;
}

TEST_CASE("planner/galaxy sparse: places are ranks, the master's first, groups adjacent") {
  // In the order of their routers, and of their names, rooms alternate.
  for (const std::string allreduce : {"ring,star", "star", "auto"}) {
    planner::Request request = request_of(rooms({0, 1, 0, 1}, {1e-2}), {.levels = 3, .drop = 0.5});
    request.allreduce = allreduce;
    const Plan plan = plan_of(request);
    CAPTURE(allreduce);
    CHECK(plan.sparse->order == plan.layout.order);
    CHECK(plan.sparse->order.front() == 0);
    CHECK(plan.sparse->groups == std::vector<std::vector<std::int32_t>>{{0, 0, 1, 1}});
    CHECK(plan.tiles == 0);
  }
  const planner::SparseAttention there{
      .order = {1, 4, 3, 2, 0}, .groups = {{0, 1, 1, 2, 2}, {0, 1, 1, 1, 1}}, .drop = {}};
  const planner::SparseAttention here = there.in_order({0, 1, 4, 2, 3});
  CHECK(here.order == std::vector<model::DeviceIndex>{0, 2, 4, 3, 1});
  CHECK(here.groups == std::vector<std::vector<std::int32_t>>{{0, 0, 1, 1, 2}, {0, 0, 0, 0, 1}});
  CHECK(here.in_order({1, 4, 3, 2, 0}) == there);
}

TEST_CASE("planner/galaxy sparse: devices attend to what is kept, and score half of it again") {
  const Plan plan = plan_of(request_of(rooms({0, 0, 0, 0}, {}), {.levels = 2, .drop = 0.6}));
  const double pair = 4.0 * 8.0 * static_cast<double>(plan.model.head_dim);
  // 820 pairs of 40 rows, 55 of 10, 136 of 16: n (n + 1) / 2.
  SUBCASE("layers that drop nothing: of 40 rows all pairs, as dense") {
    for (const std::int32_t layer : {0, 1, 5}) {
      CHECK(flops(plan, layer, TaskKind::attend) == pair * 820);
      CHECK(flops(plan, layer, TaskKind::merge) == 0.0);
      CHECK(flops(plan, layer, TaskKind::attend) == flops(dense(plan), layer, TaskKind::attend));
    }
    CHECK(flops(plan, 0, TaskKind::score) == 0.0);
    CHECK(flops(plan, 1, TaskKind::score) == pair / 2 * 820);
  }
  SUBCASE("others: own rows whole, of six pairs of places 4 rows each") {
    for (const std::int32_t layer : {2, 3, 4})
      CHECK(flops(plan, layer, TaskKind::attend) == pair * (4 * 55 + 6 * 16));
    CHECK(flops(plan, 2, TaskKind::score) == pair / 2 * (4 * 55 + 6 * 16));
    CHECK(flops(plan, 4, TaskKind::score) == 0.0);
    // Of three places the rows that ask, three flops an element.
    CHECK(flops(plan, 2, TaskKind::merge) ==
          3.0 * 3 * 4 * 8 * static_cast<double>(plan.model.head_dim));
  }
  SUBCASE("levels that overlap: own rows whole, and the 16 that all kept, each up to itself") {
    const Plan overlapping =
        plan_of(request_of(rooms({0, 0, 0, 0}, {}), {.levels = 2, .drop = 0.6, .overlap = true}));
    CHECK(flops(overlapping, 2, TaskKind::attend) == pair * (4 * 55 + 136));
    // Where nothing is dropped all 40 again.
    CHECK(flops(overlapping, 0, TaskKind::attend) == pair * (4 * 55 + 820));
    CHECK(flops(overlapping, 1, TaskKind::score) == pair / 2 * (4 * 55 + 820));
  }
  SUBCASE("three levels: of the near place 4 of 10 rows, of the two far ones 2") {
    const Plan three = plan_of(request_of(rooms({0, 0, 1, 1}, {1e-2}), {.levels = 3, .drop = 0.6}));
    CHECK(flops(three, 2, TaskKind::attend) == pair * (4 * 55 + 2 * 16 + 4 * 4));
    CHECK(flops(three, 2, TaskKind::score) == pair / 2 * (4 * 55 + 2 * 16 + 4 * 4));
  }
  SUBCASE("a level that drops nothing reads the cache: nothing is gathered there") {
    Plan near = plan_of(request_of(rooms({0, 0, 1, 1}, {1e-2}), {.levels = 3, .drop = 0.6}));
    for (std::size_t layer = 2; layer < 5; ++layer)
      near.sparse->drop[layer] = planner::for_all_heads({0.0, 0.6});
    near = planner::with_predicted_memory(std::move(near));
    near.validate();
    CHECK(flops(near, 2, TaskKind::attend) == pair * (4 * 55 + 2 * 100 + 4 * 16));
    CHECK(flops(near, 2, TaskKind::score) == pair / 2 * (4 * 55 + 2 * 100 + 4 * 16));
    const model::TaskGraph graph = prompt_of(near);
    for (const Task& task : graph.tasks()) {
      if (task.kind == TaskKind::gather) CHECK(task.output.slot == 2);
    }
  }
}

TEST_CASE("planner/galaxy sparse: nothing more is sent, and without drops nothing more is done") {
  for (const double drop : {0.0, 0.6}) {
    for (const bool overlap : {false, true}) {
      for (const std::int64_t prompt : {2, 3, 40}) {
        const Plan plan =
            plan_of(request_of(rooms({0, 0, 1, 1}, {1e-2}),
                               {.levels = 3, .drop = drop, .overlap = overlap}, {prompt, 4}));
        const Plan without = dense(plan);
        CAPTURE(drop);
        CAPTURE(overlap);
        CAPTURE(prompt);
        CHECK(sent(plan) == sent(without));
        const bool same = drop == 0.0 && !overlap;
        CHECK((prompt_of(plan).size() == prompt_of(without).size()) == same);
        for (std::size_t d = 0; d < plan.devices.size(); ++d) {
          CHECK((plan.devices[d].memory == without.devices[d].memory) == same);
          CHECK(plan.devices[d].memory.kv_cache == without.devices[d].memory.kv_cache);
        }
      }
    }
  }
}

TEST_CASE("planner/galaxy sparse: no bound is told of what attends to less than all") {
  const planner::Request request = request_of(rooms({0, 0, 0, 0}, {}), {.levels = 2});
  const auto whole = planner::request_bound(plan_of(request));
  REQUIRE(whole);
  CHECK(whole->planned_s >= whole->lower_bound_s);
  planner::Request drops = request;
  drops.sparse->drop = 0.5;
  CHECK(!planner::request_bound(plan_of(drops)));
}

TEST_CASE("planner/galaxy sparse: graphs are in order, and declare what they use") {
  for (const auto& network :
       std::vector<std::pair<model::Cluster, int>>{{rooms({0, 0}, {}), 2},
                                                   {rooms({0, 0, 1, 1}, {1e-2}), 3},
                                                   {rooms({0, 2, 0, 1}, {1e-3, 3e-2}), 4}}) {
    const int levels = network.second;
    for (const auto& given : std::vector<std::pair<double, bool>>{
             {0.0, false}, {0.0, true}, {0.5, false}, {0.5, true}}) {
      const double drop = given.first;
      const bool overlap = given.second;
      for (const std::int64_t prompt : {1, 2, 4, 5, 33}) {
        Plan plan = plan_of(request_of(
            network.first, {.levels = levels, .drop = drop, .overlap = overlap}, {prompt, 4}));
        if (drop > 0.0) plan.sparse->drop[2].back().parts = {0.95, 0.9, 0.9, 0.95};
        CAPTURE(levels);
        CAPTURE(drop);
        CAPTURE(overlap);
        CAPTURE(prompt);
        check_graphs(plan);
      }
    }
  }
}

TEST_CASE("planner/galaxy sparse: shares that are sought have whole key/value heads") {
  // Two thirds, one third and a sixth of the heads are none of two.
  const model::Cluster cluster =
      star_cluster({{.flops_per_s = 4e9}, {.flops_per_s = 2e9}, {.flops_per_s = 1e9}});
  for (const char* const partition : {"auto", "exact", "galaxy"}) {
    planner::Request request = request_of(cluster, {.levels = 2, .drop = 0.5});
    request.partition = partition;
    const Plan plan = plan_of(request);
    CAPTURE(std::string(partition));
    for (const planner::DevicePlan& device : plan.devices) {
      CHECK(device.share.heads.begin % 2 == 0);
      CHECK(device.share.heads.end % 2 == 0);
    }
  }
}

TEST_CASE("planner/galaxy sparse: exact shares are found wherever memory suffices for some") {
  const auto request_with = [](double memory_bytes, const char* partition) {
    const auto device = [&](double flops_per_s) {
      return DeviceSpec{.flops_per_s = flops_per_s, .memory_bytes = memory_bytes};
    };
    planner::Request request = request_of(star_cluster({device(4e9), device(2e9), device(1e9)}),
                                          {.levels = 2, .drop = 0.5});
    request.partition = partition;
    return request;
  };
  double most = 0.0;
  for (const planner::DevicePlan& device : plan_of(request_with(1e9, "exact")).devices)
    most = std::max(most, device.memory.total());
  int found = 0;
  testing::Sampled taken(7);
  for (double part = 0.5; part < 1.0; part += 0.005) {
    if (!taken()) continue;
    CAPTURE(part);
    const auto has_plan = [&](const char* partition) {
      return std::holds_alternative<Plan>(planner::make_plan(request_with(part * most, partition)));
    };
    const bool exact = has_plan("exact");
    CHECK(has_plan("auto") == exact);
    found += exact ? 1 : 0;
  }
  CHECK(found > 0);
}

TEST_CASE("planner/galaxy sparse: the plan file has it, and is held to the ranks' order") {
  const Plan plan =
      plan_of(request_of(rooms({0, 1, 0, 1}, {1e-2}), {.levels = 3, .drop = 0.3, .overlap = true}));
  const std::string text = planner::to_json(plan);
  CHECK(planner::parse_plan_json(text, "plan.json") == plan);
  const nlohmann::json good = nlohmann::json::parse(text);
  const auto refused = [&](const std::function<void(nlohmann::json&)>& spoil, const char* says) {
    nlohmann::json bad = good;
    spoil(bad);
    CHECK_THROWS_WITH_AS((void)planner::parse_plan_json(bad.dump(), "plan.json"),
                         doctest::Contains(says), Error);
  };
  refused(
      [](auto& j) {
        std::swap(j["sparse_attention"]["order"][0], j["sparse_attention"]["order"][1]);
      },
      "at place 0: expected device 'd0', as the layout has it");
  refused(
      [](auto& j) {
        std::swap(j["sparse_attention"]["order"][1], j["sparse_attention"]["order"][2]);
      },
      "at place 1: expected device");
  refused([](auto& j) { std::swap(j["layout"]["order"][2], j["layout"]["order"][3]); },
          "as the layout has it");
  refused([](auto& j) { j["sparse_attention"]["order"].erase(3); }, "3 devices");
  refused([](auto& j) { j["sparse_attention"]["groups"][0] = {0, 1, 0, 1}; }, "adjacent");
  refused([](auto& j) { j["sparse_attention"]["drop"][1][1] = 0.5; }, "first two layers");
  refused([](auto& j) { j["tiles"] = 2; }, "2 tiles, expected 0; plan without '--tiles'");
  refused(
      [](auto& j) {
        j["devices"][0]["heads"] = {0, 3};
        j["devices"][1]["heads"] = {3, 4};
      },
      "computes heads [0, 3), expected all 2 of each key/value head");
  refused([](auto& j) { j["strategy"] = "tensor"; }, "expected none with strategy 'tensor'");
}

TEST_CASE("planner/galaxy sparse: what it does not do is refused, in a line that says what does") {
  const planner::Request good = request_of(rooms({0, 0, 1, 1}, {1e-2}), {.levels = 2, .drop = 0.5});
  const auto refused = [&](const std::function<void(planner::Request&)>& spoil, const char* says) {
    planner::Request bad = good;
    spoil(bad);
    CAPTURE(std::string(says));
    try {
      (void)planner::make_plan(bad);
      CHECK(std::string("no error") == says);
    } catch (const Error& error) {
      const std::string text = error.what();
      CHECK(text.find(says) != std::string::npos);
      CHECK(text.find('\n') == std::string::npos);
    }
  };
  refused([](auto& r) { r.tiles = 2; }, "leave out '--tiles'");
  refused([](auto& r) { r.sparse->tiles = {2}; }, "of which nothing travels by level");
  refused([](auto& r) { r.window.blocks = 2; }, "'--window all'");
  refused([](auto& r) { r.capacity = {.rows = 40, .positions = 128, .sequences = 2, .steps = 1}; },
          "leave out '--workload'");
  refused([](auto& r) { r.partition = "3:1:2:2"; },
          "plan with '--partition auto', or without '--drop'");
  refused([](auto& r) { r.decode_moves = planner::DecodeMoves::keys_once; }, "expected none");
  refused([](auto& r) { r.sparse->levels = 4; }, "give '--levels 3'");
  refused([](auto& r) { r.cluster = rooms({0}, {}); }, "of one device");
  refused(
      [](auto& r) {
        r.model.family = model::Family::bert;
        r.workload.new_tokens = 0;
      },
      "attends to later tokens");
  refused(
      [](auto& r) {
        r.model.window = 8;
        r.model.windowed.assign(6, true);
      },
      "sees 8 tokens back");
  // Where nothing is dropped key/value heads may be of several devices.
  planner::Request apart = good;
  apart.partition = "3:1:2:2";
  apart.sparse->drop = 0.0;
  CHECK_NOTHROW((void)plan_of(apart));
  const Plan plan = plan_of(good);
  planner::GraphCache served(plan);
  CHECK_THROWS_WITH_AS((void)served.graph_of(planner::prompt_batch({40, 4})),
                       doctest::Contains("leave out '--workload'"), Error);
  CHECK_THROWS_WITH_AS((void)planner::find_strategy("galaxy").lower(
                           plan, {{{.sequence = 0, .rows = 3}, {.sequence = 1, .rows = 3}}}),
                       doctest::Contains("a step of 2 sequences"), Error);
  // New tokens are by heads, whatever the prompt's length.
  CHECK_NOTHROW(planner::GenerationSteps(plan, planner::Workload{39, 4}));
  CHECK_NOTHROW(planner::GenerationSteps(plan, planner::Workload{1, 1}));
}

}  // namespace
}  // namespace tandem::test::galaxy_sparse_test
