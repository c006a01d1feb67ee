// Sequence-parallel prompts: csps.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/conflicts.hpp"
#include "model/graph/work.hpp"
#include "planner/search/search.hpp"
#include "planner/search/share_candidates.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/rows.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/planner/planner_interpreter.hpp"
#include "tests/support/collective_fixture.hpp"

namespace tandem::test::csps_test {
namespace {

using model::Range;
using model::Task;
using model::TaskKind;
using planner::Plan;
using planner::Split;

// Everybody with everything, of which each computes its part of `split`.
Plan csps_plan(const ModelSizes& sizes, model::DeviceIndex master, const Split& split,
               const std::string& allreduce, std::int32_t tiles, planner::Window window = {}) {
  Plan plan = plan_of("tensor", sizes, master, split);
  plan.strategy = "csps";
  plan.tiles = tiles;
  plan.allreduce = {allreduce, allreduce};
  for (model::DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
    planner::DevicePlan& device = plan.devices[static_cast<std::size_t>(d)];
    device.share.part = {.heads = device.share.heads, .columns = device.share.columns};
    device.share.heads = {0, static_cast<std::int32_t>(plan.model.heads)};
    device.share.columns = {0, static_cast<std::int32_t>(plan.model.intermediate)};
    device.window = window;
  }
  plan.validate();
  return plan;
}

void check_graphs(const Plan& plan) {
  const planner::Strategy& strategy = planner::find_strategy(plan.strategy);
  for (const model::Batch& batch :
       {planner::prompt_batch({9, 1}), planner::prompt_batch({2, 1}), planner::scored_batch(7, 3),
        model::Batch{{{.sequence = 2, .rows = 8}, {.sequence = 0, .past = 4}}}}) {
    const model::TaskGraph graph = strategy.lower(plan, batch);
    CHECK(model::find_conflict(graph).value_or("") == "");
    CHECK(model::undeclared(graph).empty());
  }
}

struct Given {
  ModelSizes sizes;
  model::DeviceIndex master;
  Split split;
};

std::vector<Given> parts() {
  const ModelSizes mha{.heads = 7, .kv_heads = 7, .intermediate = 13};
  const ModelSizes gqa{.layers = 3, .heads = 8, .kv_heads = 2, .intermediate = 11};
  return {{mha, 0, {{7}, {13}}},
          {mha, 1, {{5, 2}, {1, 12}}},
          {gqa, 0, {{3, 3, 2}, {5, 3, 3}}},
          {gqa, 2, {{3, 1, 4}, {5, 1, 5}}},
          // More devices than key/value heads.
          {{.layers = 1, .heads = 5, .kv_heads = 1, .head_dim = 4, .intermediate = 5},
           4,
           {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}}};
}

TEST_CASE("planner/csps: gives the unsharded model's logits, whoever attends with which heads") {
  for (const Given& given : parts()) {
    for (const char* allreduce : {"star", "ring", "hierarchical"}) {
      for (const std::int32_t tiles : {0, 1, 3}) {
        CAPTURE(given.split.heads);
        CAPTURE(given.master);
        CAPTURE(allreduce);
        CAPTURE(tiles);
        const Plan plan = csps_plan(given.sizes, given.master, given.split, allreduce, tiles);
        check_graphs(plan);
        check_batches(plan, true);
      }
    }
  }
}

TEST_CASE("planner/csps: streams the model once for all rows of a device, whoever's are wanted") {
  const planner::Strategy& strategy = planner::find_strategy("csps");
  const std::vector<int> text{3, 1, 4, 1, 5, 9, 2};
  for (const Given& given : parts()) {
    for (const std::int32_t blocks : {1, 2}) {
      CAPTURE(given.split.heads);
      CAPTURE(blocks);
      if (given.sizes.layers == 1 && blocks == 2) continue;  // nothing would stream
      const Plan plan = csps_plan(given.sizes, given.master, given.split, "star", blocks - 1,
                                  {.blocks = blocks, .retain = 0});
      const model::TaskGraph prompt = strategy.lower(plan, planner::prompt_batch({7, 1}));
      const model::TaskGraph token = strategy.lower(plan, planner::decode_batch(7));
      CHECK(model::find_conflict(prompt).value_or("") == "");
      CHECK(prompt.events().size() == token.events().size());
      const auto loads = [&](const model::TaskGraph& graph) {
        double bytes = 0.0;
        for (const Task& task : graph.tasks()) {
          if (task.kind == TaskKind::load)
            bytes += model::work_of(plan.model, graph.batch(), task).bytes_disk;
        }
        return bytes;
      };
      CHECK(loads(prompt) == loads(token));
      Interpreter interpreter(plan);
      auto sampled = interpreter.run(prompt, text);
      check_close(sampled.at(6), reference_logits(plan.model, text));
      std::vector<int> longer = text;
      longer.push_back(6);
      sampled = interpreter.run(token, {6});
      check_close(sampled.at(0), reference_logits(plan.model, longer));
    }
  }
}

// Bytes that a graph's transfers of some buffer carry.
double bytes_of(const Plan& plan, const model::TaskGraph& graph, model::BufferKind buffer) {
  double bytes = 0.0;
  for (const Task& task : graph.tasks()) {
    if (task.kind == TaskKind::transfer && task.input.kind == buffer)
      bytes += model::work_of(plan.model, graph.batch(), task).bytes_wire;
  }
  return bytes;
}

TEST_CASE("planner/csps: of equal parts sends e R d (2 H + 2 K) (N - 1) / N bytes a layer") {
  const Plan plan = csps_plan({.layers = 3, .heads = 8, .kv_heads = 4, .intermediate = 8}, 0,
                              {{2, 2, 2, 2}, {2, 2, 2, 2}}, "star", 2);
  const model::TaskGraph graph =
      planner::find_strategy("csps").lower(plan, planner::scored_batch(12, 12));
  const double d = static_cast<double>(plan.model.head_dim);
  const double moved = 4.0 * 12 * d * 3 / 4 * 3;  // e R d (N - 1) / N L
  CHECK(bytes_of(plan, graph, model::BufferKind::query) == moved * 8);
  CHECK(bytes_of(plan, graph, model::BufferKind::key_value) == moved * 2 * 4);
  CHECK(bytes_of(plan, graph, model::BufferKind::attention) == moved * 8);
  CHECK(bytes_of(plan, graph, model::BufferKind::partial) == 0.0);
  // To and from who has other rows than the master.
  CHECK(bytes_of(plan, graph, model::BufferKind::hidden) ==
        4.0 * 2 * 9 * static_cast<double>(plan.model.hidden));
}

TEST_CASE("planner/csps: short prompts fill the parts that a long one leaves") {
  // Rows of all prompts of a step are dealt together, so no part is smaller for the long one's end.
  const Plan plan = csps_plan({.layers = 2, .heads = 4, .kv_heads = 4, .intermediate = 8}, 0,
                              {{1, 1, 1, 1}, {2, 2, 2, 2}}, "star", 0);
  const model::Batch batch{{{.sequence = 0, .rows = 13, .sampled = 1},
                            {.sequence = 1, .rows = 4, .sampled = 1},
                            {.sequence = 2, .rows = 3, .sampled = 1}}};
  const model::TaskGraph graph = planner::find_strategy("csps").lower(plan, batch);
  CHECK(model::find_conflict(graph).value_or("") == "");
  std::int32_t products = 0;
  for (const Task& task : graph.tasks()) {
    if (task.kind != TaskKind::project_qkv) continue;
    CHECK(task.rows == Range{5 * task.device, 5 * task.device + 5});
    ++products;
  }
  CHECK(products == 4 * 2);
}

TEST_CASE("planner/csps: key and value heads that several devices read travel to each") {
  // e d sum over j of (R - S_j) (|A_j| + 2 K_j), and of the last layer one row's queries.
  const Plan plan = csps_plan({.layers = 2, .heads = 6, .kv_heads = 2, .intermediate = 12}, 0,
                              {{1, 1, 4}, {6, 3, 3}}, "star", 2);
  const model::TaskGraph graph =
      planner::find_strategy("csps").lower(plan, planner::prompt_batch({12, 1}));
  const double element = 4.0 * static_cast<double>(plan.model.head_dim);
  // S = 6, 3, 3; heads 0, 1 and 2 to 5; key/value heads of three heads each: 1, 1 and 2.
  CHECK(bytes_of(plan, graph, model::BufferKind::key_value) ==
        element * 2 * 2 * (6 * 1 + 9 * 1 + 9 * 2));
  const double all_rows = 6 * 1 + 9 * 1 + 9 * 4;
  CHECK(bytes_of(plan, graph, model::BufferKind::query) == element * (all_rows + 1 + 1));
  CHECK(bytes_of(plan, graph, model::BufferKind::attention) ==
        element * (6 * 5 + 3 * 5 + 3 * 2 + 5 - 3));
}

// Parts of 32 heads of 128 and as many columns, two and 64 each.
Split sixteenths() { return {std::vector<std::int64_t>(16, 2), std::vector<std::int64_t>(16, 64)}; }
constexpr ModelSizes kLong{
    .layers = 2, .heads = 32, .kv_heads = 2, .head_dim = 128, .intermediate = 1024};
constexpr std::int32_t kMillion = 1 << 20;

double operations(const Plan& plan, const model::TaskGraph& graph, TaskKind kind,
                  std::int32_t layer) {
  double flops = 0.0;
  for (const Task& task : graph.tasks()) {
    if (task.kind == kind && task.layer == layer)
      flops += model::work_of(plan.model, graph.batch(), task).flops;
  }
  return flops;
}

TEST_CASE("planner/csps: a prompt of a million tokens has no more tasks than one of 4096") {
  const Plan plan = csps_plan(kLong, 0, sixteenths(), "star", 0);
  const planner::Strategy& strategy = planner::find_strategy("csps");
  const model::TaskGraph graph = strategy.lower(plan, planner::prompt_batch({kMillion, 1}));
  CHECK(graph.size() == strategy.lower(plan, planner::prompt_batch({4096, 1})).size());
  const double moved = 4.0 * 128 * kMillion * 15 / 16;  // e d R (N - 1) / N
  // Of the last layer one row is wanted: 30 heads of its query go, and come back.
  CHECK(bytes_of(plan, graph, model::BufferKind::query) == moved * 32 + 4.0 * 128 * 30);
  CHECK(bytes_of(plan, graph, model::BufferKind::attention) == moved * 32 + 4.0 * 128 * 30);
  CHECK(bytes_of(plan, graph, model::BufferKind::key_value) == 2 * moved * 16 * 2);
  CHECK(bytes_of(plan, graph, model::BufferKind::hidden) ==
        4.0 * 4096 * (kMillion / 16.0 * 15 + 1));
  const double million = kMillion;
  CHECK(operations(plan, graph, TaskKind::attend, 0) ==
        doctest::Approx(2.0 * 4096 * million * (million + 1)).epsilon(1e-12));
  CHECK(operations(plan, graph, TaskKind::ffn_down, 0) == 2.0 * 4096 * 1024 * million);
}

TEST_CASE("planner/galaxy: a prompt of a million tokens has no more tasks than one of 4096") {
  const Plan plan = plan_of("galaxy", kLong, 0, sixteenths());
  const planner::Strategy& strategy = planner::find_strategy("galaxy");
  const model::TaskGraph graph = strategy.lower(plan, planner::prompt_batch({kMillion, 1}));
  CHECK(graph.size() == strategy.lower(plan, planner::prompt_batch({4096, 1})).size());
  // e h (R - S_M + (4 L - 1) (N - 1) R + (N - 1) W + W - W_M), W = 1, which another device has
  double bytes = 0.0;
  for (const Task& task : graph.tasks()) {
    if (task.kind == TaskKind::transfer) bytes += static_cast<double>(model::payload_bytes(task));
  }
  CHECK(bytes == 4.0 * 4096 * (kMillion / 16.0 * 15 + 7.0 * 15 * kMillion + 15 + 1));
}

TEST_CASE("planner/pipeline: a chunk after a million positions attends to all of them") {
  const Plan plan = pipeline_of(2);
  const model::TaskGraph graph =
      planner::find_strategy("pipeline")
          .lower(plan, {{{.past = kMillion, .rows = 256, .sampled = 0}}, {}});
  const auto width = static_cast<double>(plan.model.heads * plan.model.head_dim);
  CHECK(operations(plan, graph, TaskKind::attend, 0) ==
        4.0 * width * (256.0 * kMillion + 256.0 * 257 / 2));
}

TEST_CASE("planner/csps: new tokens are those of tensor with the parts as shares") {
  const ModelSizes sizes{.layers = 3, .heads = 8, .kv_heads = 2, .intermediate = 11};
  const Split split{{3, 3, 2}, {5, 3, 3}};
  Plan tensor = plan_of("tensor", sizes, 1, split);
  tensor.allreduce = {"ring", "ring"};
  tensor.validate();
  const Plan csps = csps_plan(sizes, 1, split, "ring", 0);
  const model::Batch token = planner::decode_batch(10);
  const model::TaskGraph a = planner::find_strategy("tensor").lower(tensor, token);
  const model::TaskGraph b = planner::find_strategy("csps").lower(csps, token);
  REQUIRE(a.size() == b.size());
  for (model::TaskIndex i = 0; i < a.size(); ++i) {
    const auto t = static_cast<std::size_t>(i);
    CHECK(a.tasks()[t].kind == b.tasks()[t].kind);
    CHECK(a.tasks()[t].columns == b.tasks()[t].columns);
    CHECK(std::ranges::equal(a.dependencies(i), b.dependencies(i)));
  }
}

TEST_CASE("planner/csps: parts by weight are no smaller of more rows, nor below their quota") {
  const std::vector<std::vector<std::int64_t>> all{{1, 1, 2},    {5, 3, 3}, {1},
                                                   {7, 1, 1, 1}, {0, 3, 2}, {6, 6, 2}};
  for (const std::vector<std::int64_t>& weights : all) {
    std::int64_t sum = 0;
    for (const std::int64_t weight : weights) sum += weight;
    for (std::int32_t total = 0; total < 60; ++total) {
      CAPTURE(weights);
      CAPTURE(total);
      const auto now = planner::parts_by_weight(total, weights);
      const auto next = planner::parts_by_weight(total + 1, weights);
      std::int64_t all_rows = 0;
      for (std::size_t i = 0; i < now.size(); ++i) {
        CHECK(next[i] >= now[i]);
        CHECK(now[i] * sum >= total * weights[i] - sum + 1);
        all_rows += now[i];
      }
      CHECK(all_rows == total);
    }
  }
  CHECK(planner::parts_by_weight(10, {1, 1, 2}) == std::vector<std::int32_t>{3, 2, 5});
}

TEST_CASE("planner/csps: a file's parts are read back, and others refused by name") {
  const Plan plan = csps_plan({.heads = 6, .kv_heads = 3}, 0, {{2, 4}, {3, 3}}, "star", 1);
  CHECK(planner::parse_plan_json(planner::to_json(plan), "plan.json") == plan);
  const auto refused = [&](auto change, const char* reason) {
    Plan other = plan;
    change(other);
    CHECK_THROWS_WITH_AS(other.validate(), doctest::Contains(reason), Error);
  };
  refused([](Plan& p) { p.devices[1].share.part.heads = {3, 6}; }, "beginning at 2");
  refused([](Plan& p) { p.devices[1].share.part.heads = {2, 5}; }, "end at 5");
  refused([](Plan& p) { p.devices[0].share.part = {}; }, "expected at least one");
  refused([](Plan& p) { p.devices[1].share.part.columns = {3, 7}; }, "that it computes");
  refused([](Plan& p) { p.devices[1].share.heads = {2, 6}; }, "holds heads [2, 6)");
  Plan tensor = plan_of("tensor", {}, 0, {{2, 2}, {3, 3}});
  tensor.devices[0].share.part = {.heads = {0, 2}, .columns = {0, 3}};
  CHECK_THROWS_WITH_AS(tensor.validate(), doctest::Contains("computes a part of its share"), Error);
}

planner::Request request_for(std::vector<DeviceSpec> devices) {
  return {.model = small_model({.layers = 4, .heads = 8, .kv_heads = 8}),
          .cluster = star_cluster(std::move(devices)),
          .strategy = "csps",
          .workload = {5, 3}};
}

TEST_CASE("planner/csps: faster devices compute more, and partitions that there are not are told") {
  planner::Request request = request_for({{}, {3e9}});
  auto made = planner::make_plan(request);
  REQUIRE(std::holds_alternative<Plan>(made));
  request.partition = "1:3";
  made = planner::make_plan(request);
  REQUIRE(std::holds_alternative<Plan>(made));
  CHECK(std::get<Plan>(made).devices[1].share.part.heads == Range{2, 8});
  request.partition = "exact";
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("'exact'"), Error);
  request.partition = "1:1000";
  made = planner::make_plan(request);
  REQUIRE(std::holds_alternative<planner::Infeasible>(made));
  CHECK(std::get<planner::Infeasible>(made).reason.find("one head and one FFN column") !=
        std::string::npos);
  const auto many = planner::make_plan(request_for(std::vector<DeviceSpec>(9)));
  REQUIRE(std::holds_alternative<planner::Infeasible>(many));
  CHECK(std::get<planner::Infeasible>(many).reason.find("8 attention heads") != std::string::npos);
}

}  // namespace
}  // namespace tandem::test::csps_test
