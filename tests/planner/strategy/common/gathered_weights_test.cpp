// Weights that lie split, and travel to who computes with all of them.

#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/channel_slots.hpp"
#include "model/graph/conflicts.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/work.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/rows.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/planner/planner_interpreter.hpp"

namespace tandem::test::gathered_weights_test {
namespace {

using model::Task;
using model::TaskKind;
using model::WeightBlock;
using planner::Plan;
using planner::Split;

Plan gathered_plan(const ModelSizes& sizes, model::DeviceIndex master, const Split& split,
                   std::int32_t tiles) {
  Plan plan = plan_of("tensor", sizes, master, split);
  plan.strategy = "csps";
  plan.gather_weights = true;
  plan.tiles = tiles;
  plan.validate();
  return plan;
}

struct Given {
  ModelSizes sizes;
  model::DeviceIndex master;
  Split split;
};

std::vector<Given> shares() {
  const ModelSizes mha{.heads = 7, .kv_heads = 7, .intermediate = 13};
  const ModelSizes gqa{.layers = 3, .heads = 8, .kv_heads = 2, .intermediate = 11};
  return {{mha, 1, {{5, 2}, {1, 12}}},
          {gqa, 0, {{3, 3, 2}, {5, 3, 3}}},
          {gqa, 2, {{3, 1, 4}, {5, 1, 5}}},
          // More devices than key/value heads.
          {{.layers = 1, .heads = 5, .kv_heads = 1, .head_dim = 4, .intermediate = 5},
           4,
           {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}}};
}

TEST_CASE(
    "planner/gathered weights: give the unsharded model's logits, of weights that are there") {
  const planner::Strategy& strategy = planner::find_strategy("csps");
  for (const Given& given : shares()) {
    for (const std::int32_t tiles : {0, 1, 3}) {
      CAPTURE(given.split.heads);
      CAPTURE(tiles);
      const Plan plan = gathered_plan(given.sizes, given.master, given.split, tiles);
      for (const model::Batch& batch :
           {planner::prompt_batch({9, 1}), planner::prompt_batch({2, 1}),
            planner::scored_batch(7, 3), planner::decode_batch(5),
            model::Batch{{{.sequence = 2, .rows = 8}, {.sequence = 0, .past = 4}}}}) {
        const model::TaskGraph graph = strategy.lower(plan, batch);
        CHECK(model::find_conflict(graph).value_or("") == "");
        CHECK(model::undeclared(graph).empty());
      }
      check_batches(plan, true);
    }
  }
}

// Bytes that come to each device, of weights or of questions for them.
std::vector<double> received(const Plan& plan, const model::TaskGraph& graph, bool weights) {
  std::vector<double> bytes(plan.devices.size());
  for (const Task& task : graph.tasks()) {
    if (task.kind != TaskKind::transfer) continue;
    const bool asks = task.input.kind == model::BufferKind::hidden && task.columns.size() == 1;
    if (weights ? model::moves_weights(task) : asks)
      bytes[static_cast<std::size_t>(weights ? task.peer : task.device)] +=
          model::work_of(plan.model, graph.batch(), task).bytes_wire;
  }
  return bytes;
}

TEST_CASE("planner/gathered weights: each device gets the others' blocks, once in a layer") {
  for (const Given& given : shares()) {
    CAPTURE(given.split.heads);
    const Plan plan = gathered_plan(given.sizes, given.master, given.split, 0);
    const model::TaskGraph graph =
        planner::find_strategy("csps").lower(plan, planner::scored_batch(30, 30));
    const std::vector<double> got = received(plan, graph, true);
    const std::vector<double> asked = received(plan, graph, false);
    const auto others = static_cast<double>(plan.devices.size() - 1);
    for (std::size_t d = 0; d < plan.devices.size(); ++d) {
      double wanted = 0.0;
      for (std::size_t other = 0; other < plan.devices.size(); ++other) {
        const model::Share& share = plan.devices[other].share;
        for (std::int32_t layer = 0; layer < plan.model.layers && other != d; ++layer) {
          wanted += static_cast<double>(
              model::block_extent(plan.model, WeightBlock::attention, layer, share.heads) +
              model::block_extent(plan.model, WeightBlock::ffn, layer, share.columns));
        }
      }
      CHECK(got[d] == wanted);
      CHECK(asked[d] == 4.0 * 2.0 * others * static_cast<double>(plan.model.layers - 1));
    }
    const model::TaskGraph token =
        planner::find_strategy("csps").lower(plan, planner::decode_batch(12));
    for (const double bytes : received(plan, token, true)) CHECK(bytes == 0.0);
  }
}

TEST_CASE("planner/gathered weights: of the last layer's FFN none go where no row is wanted") {
  const Plan plan = gathered_plan({.heads = 4, .intermediate = 6}, 0, {{1, 1, 2}, {2, 2, 2}}, 0);
  const model::TaskGraph graph =
      planner::find_strategy("csps").lower(plan, planner::prompt_batch({12, 1}));
  int blocks = 0;
  for (const Task& task : graph.tasks()) {
    const bool last = model::moves_weights(task) && task.block == WeightBlock::ffn &&
                      task.layer + 1 == plan.model.layers;
    if (!last) continue;
    ++blocks;
    CHECK(task.peer == plan.layout.order.back());  // who has the last row
  }
  CHECK(blocks == 2);
}

TEST_CASE("planner/gathered weights: the work is that of devices which have them all, and sums") {
  const Given given = shares()[1];
  const Plan plan = gathered_plan(given.sizes, given.master, given.split, 0);
  Plan whole = plan;
  whole.gather_weights = false;
  for (planner::DevicePlan& device : whole.devices) {
    device.share.part = {.heads = device.share.heads, .columns = device.share.columns};
    device.share.heads = {0, static_cast<std::int32_t>(plan.model.heads)};
    device.share.columns = {0, static_cast<std::int32_t>(plan.model.intermediate)};
  }
  whole.validate();
  const auto flops = [](const Plan& of, TaskKind kind) {
    const model::TaskGraph graph =
        planner::find_strategy("csps").lower(of, planner::scored_batch(12, 12));
    double all = 0.0;
    for (const Task& task : graph.tasks()) {
      if (task.kind == kind) all += model::work_of(of.model, graph.batch(), task).flops;
    }
    return all;
  };
  for (const TaskKind kind :
       {TaskKind::attend, TaskKind::project_out, TaskKind::ffn_up, TaskKind::ffn_down})
    CHECK(flops(plan, kind) == flops(whole, kind));
  // Of key/value heads that shares have in common each makes its own.
  CHECK(flops(plan, TaskKind::project_qkv) > flops(whole, TaskKind::project_qkv));
  const double added = 12.0 * static_cast<double>(plan.model.hidden * 2 * 2 * plan.model.layers);
  CHECK(flops(plan, TaskKind::add) == flops(whole, TaskKind::add) + added);
}

TEST_CASE("planner/gathered weights: have room for a layer of the others', and wait in no slot") {
  const Given given = shares()[1];
  const Plan plan = gathered_plan(given.sizes, given.master, given.split, 0);
  const model::TaskGraph graph =
      planner::find_strategy("csps").lower(plan, planner::prompt_batch({12, 1}));
  for (model::DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
    std::int64_t room = 0;
    for (const model::BufferDeclaration& one : graph.declared(d)) {
      if (one.name.kind == model::BufferKind::gathered_weights) room += one.columns;
    }
    std::int64_t layer = 0;
    for (model::DeviceIndex other = 0; other < plan.cluster.size(); ++other) {
      const model::Share& share = plan.devices[static_cast<std::size_t>(other)].share;
      if (other == d) continue;
      layer += model::block_extent(plan.model, WeightBlock::attention, 0, share.heads) +
               model::block_extent(plan.model, WeightBlock::ffn, 0, share.columns);
    }
    CHECK(room == layer);
    for (const model::ChannelSlots& end :
         model::channel_slots(graph, model::message_schedule(graph), d)) {
      for (const model::SlottedMessage& message : end.messages) {
        const Task& task = graph.tasks()[static_cast<std::size_t>(message.task)];
        CHECK((message.slot < 0) == model::moves_weights(task));
        if (message.slot >= 0) CHECK(message.bytes <= end.slot_bytes);
      }
    }
  }
}

TEST_CASE("planner/gathered weights: what comes before its place is free is a conflict") {
  const Plan plan = gathered_plan({.heads = 4, .intermediate = 6}, 0, {{2, 2}, {3, 3}}, 0);
  const model::TaskGraph graph =
      planner::find_strategy("csps").lower(plan, planner::prompt_batch({6, 1}));
  model::TaskGraph hasty(graph.batch());
  for (model::TaskIndex i = 0; i < graph.size(); ++i) {
    const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
    // Unasked, as in the first layer.
    hasty.add(task, model::moves_weights(task) ? std::span<const model::TaskIndex>()
                                               : graph.dependencies(i));
  }
  CHECK(model::find_conflict(hasty).value_or("").find("weights that are read by") !=
        std::string::npos);
}

TEST_CASE("planner/gathered weights: a file says so, and plans that cannot are refused by name") {
  const Plan plan = gathered_plan({.heads = 6, .kv_heads = 3}, 0, {{2, 4}, {3, 3}}, 1);
  const std::string text = planner::to_json(plan);
  CHECK(planner::parse_plan_json(text, "plan.json") == plan);
  const auto replaced = [&](const std::string& with) {
    std::string other = text;
    const std::string key = "\"gather_weights\": true";
    other.replace(other.find(key), key.size(), with);
    return other;
  };
  CHECK_THROWS_WITH_AS((void)planner::parse_plan_json(replaced("\"gather_weights\": false"), "p"),
                       doctest::Contains("true, or no such key"), Error);
  CHECK_THROWS_WITH_AS((void)planner::parse_plan_json(replaced("\"gather_weights\": 1"), "p"),
                       doctest::Contains("gather_weights"), Error);
  const auto refused = [&](auto change, const char* reason) {
    Plan other = plan;
    change(other);
    CHECK_THROWS_WITH_AS(other.validate(), doctest::Contains(reason), Error);
  };
  refused([](Plan& p) { p.gather_weights = false; }, "expected");
  refused([](Plan& p) { p.strategy = "tensor", p.tiles = 0; }, "none with strategy 'tensor'");
  refused([](Plan& p) { p.devices[1].share.heads = {3, 6}; }, "begin at 2");
  refused([](Plan& p) { p.devices[0].share.part.heads = {0, 2}; }, "computes a part of its share");
  refused(
      [](Plan& p) {
        p.devices[0].share.columns = {}, p.devices[1].share.columns = {0, 6};
      },
      "no heads or no FFN columns");
  CHECK(planner::to_json(plan_of("tensor", {}, 0, {{2, 2}, {3, 3}})).find("gather_weights") ==
        std::string::npos);
}

TEST_CASE(
    "planner/gathered weights: a block too large to travel is refused by name, however shared") {
  planner::Request request{
      .model = small_model(
          {.layers = 2, .heads = 8, .kv_heads = 8, .head_dim = 1024, .intermediate = 8 * 8192}),
      .cluster = star_cluster({{.flops_per_s = 1e10}, {.flops_per_s = 1e9}}),
      .strategy = "csps",
      .partition = "4:1",
      .gather_weights = true,
      .workload = {40, 2}};
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request),
                       doctest::Contains("that others gather: expected less than 2 GiB"), Error);
}

planner::Request request_for(std::vector<DeviceSpec> devices) {
  return {.model = small_model({.layers = 4, .heads = 8, .kv_heads = 8, .intermediate = 64}),
          .cluster = star_cluster(std::move(devices)),
          .strategy = "csps",
          .gather_weights = true,
          .workload = {48, 3}};
}

TEST_CASE("planner/gathered weights: shares are sought as of tensor, and within memory") {
  for (const char* partition : {"auto", "galaxy", "exact", "equal", "1:3"}) {
    CAPTURE(std::string(partition));
    planner::Request request = request_for({{}, {3e9}});
    request.partition = partition;
    const auto made = planner::make_plan(request);
    REQUIRE(std::holds_alternative<Plan>(made));
    const Plan& plan = std::get<Plan>(made);
    CHECK(plan.gather_weights);
    CHECK(plan.devices[1].share.heads.begin == plan.devices[0].share.heads.end);
    CHECK(plan.devices[1].share.part == model::Part{});
    for (const planner::DevicePlan& device : plan.devices) CHECK(!device.window.streams());
  }
}

// A search that finds such shares goes on, or has no plan; only shares that are given are an error.
TEST_CASE("planner/gathered weights: shares with blocks of 2 GiB are no candidates of a search") {
  planner::Request request = request_for({{.memory_bytes = 1e13}, {.memory_bytes = 1e13}});
  request.model = small_model(
      {.layers = 1, .heads = 2, .kv_heads = 2, .head_dim = 4096, .intermediate = 131072});
  request.workload = {2, 1};
  for (const char* partition : {"auto", "galaxy", "exact"}) {
    CAPTURE(std::string(partition));
    request.partition = partition;
    const auto made = planner::make_plan(request);
    REQUIRE(std::holds_alternative<planner::Infeasible>(made));
    const std::string& reason = std::get<planner::Infeasible>(made).reason;
    CHECK(reason.find("expected less than 2 GiB") != std::string::npos);
    CHECK(reason.starts_with("device 'd"));
  }
  for (const char* partition : {"equal", "1:3"}) {
    CAPTURE(std::string(partition));
    request.partition = partition;
    CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("2 GiB"), Error);
  }
}

TEST_CASE("planner/gathered weights: requests that cannot are refused with a remedy") {
  const auto refused = [](auto change, const char* reason) {
    planner::Request request = request_for({{}, {}});
    change(request);
    CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains(reason), Error);
  };
  refused([](planner::Request& r) { r.strategy = "galaxy"; }, "use strategy 'csps'");
  refused([](planner::Request& r) { r.sparse = planner::SparseRequest{.levels = 2}; },
          "'--levels'");
  refused([](planner::Request& r) { r.window.blocks = 2; }, "'--window all'");
  refused([](planner::Request& r) { r.cluster = star_cluster({{}}); }, "on one device");
}

}  // namespace
}  // namespace tandem::test::gathered_weights_test
