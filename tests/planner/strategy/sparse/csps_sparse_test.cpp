// Sparse attention of csps: levels, what is kept, and what travels.

#include "planner/strategy/sparse/csps_sparse.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/work.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/search/search.hpp"
#include "planner/search/window_search.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/sparse_requests.hpp"

namespace tandem::test::csps_sparse_test {
namespace {

using model::BufferKind;
using model::Range;
using model::Task;
using model::TaskKind;
using planner::Plan;
using planner::SparseRequest;

planner::Request request_of(const model::Cluster& cluster, SparseRequest sparse,
                            planner::Workload workload = {40, 4}) {
  return sparse_request("csps", cluster, sparse, workload);
}

TEST_CASE("planner/sparse: ceil((1 - drop) rows) are kept") {
  CHECK(planner::kept_rows(0.0, 7) == 7);
  CHECK(planner::kept_rows(0.25, 7) == 6);
  CHECK(planner::kept_rows(0.5, 7) == 4);
  CHECK(planner::kept_rows(0.9, 7) == 1);
  CHECK(planner::kept_rows(0.7, 10) == 3);  // 3.0000000000000004
  CHECK(planner::kept_rows(0.5, 0) == 0);
  CHECK(planner::kept_rows(1.0 - 1e-13, 7) == 1);
  for (std::int32_t rows = 1; rows < 200; ++rows) {
    for (const double drop : {0.1, 0.22, 0.5, 0.61, 0.95}) {
      CHECK(planner::kept_rows(drop, rows) >= 1);
      CHECK(planner::kept_rows(drop, rows) >= planner::kept_rows(drop, rows - 1));
    }
  }
}

TEST_CASE("planner/sparse: levels are the network's groups, adjacent, the master's last") {
  // Two in the master's room, two a room further, one far away.
  const model::Cluster cluster = rooms({0, 2, 0, 1, 1}, {1e-3, 3e-2});
  const auto of = [&](std::int32_t levels) {
    return planner::sparse_attention({.levels = levels, .drop = 0.5}, cluster, 0, 5);
  };
  CHECK(of(2).order == std::vector<model::DeviceIndex>{1, 4, 3, 2, 0});
  CHECK(of(2).groups.empty());
  // The largest ratio of latencies tells the far room apart, then the rooms of the rest.
  CHECK(of(3).groups == std::vector<std::vector<std::int32_t>>{{0, 1, 1, 1, 1}});
  CHECK(of(4).groups == std::vector<std::vector<std::int32_t>>{{0, 1, 1, 2, 2}, {0, 1, 1, 1, 1}});
  CHECK(of(4).group(1, 3) == Range{3, 4});
  CHECK(of(4).group(2, 3) == Range{3, 5});
  CHECK(of(4).group(3, 3) == Range{1, 5});
  CHECK(of(4).group(4, 3) == Range{0, 5});
  CHECK_THROWS_WITH_AS(of(5), doctest::Contains("levels 5: the network tells 4 apart"), Error);
  // 1 - p(2 + n) = (1 - p2) / 2^n, but in the first two layers and the last.
  const auto none = planner::for_all_heads({0.0, 0.0, 0.0});
  const auto some = planner::for_all_heads({0.5, 0.75, 0.875});
  CHECK(of(4).drop == std::vector<std::vector<planner::DropRatio>>{none, none, some, some, none});
}

double sent(const model::TaskGraph& graph, BufferKind of, std::int32_t layer) {
  double bytes = 0.0;
  for (const Task& task : graph.tasks()) {
    if (task.kind == TaskKind::transfer && task.input.kind == of && task.layer == layer)
      bytes += static_cast<double>(model::payload_bytes(task));
  }
  return bytes;
}

// `e`: bytes of what travels in the wire type.
void check_sent(model::WireFormat wire, double e) {
  planner::Request request = request_of(rooms({0, 0, 0, 0}, {}), {.levels = 2, .drop = 0.6});
  request.wire = wire;
  const Plan plan = plan_of(request);
  const model::TaskGraph prompt =
      planner::find_strategy("csps").lower(plan, planner::prompt_batch({40, 4}));
  const double h = 8;
  const double kv = 4;
  const double d = static_cast<double>(plan.model.head_dim);
  // Each place's rows go to three others, a quarter of the heads to each: the first asks nobody,
  // the last is asked by nobody.
  struct Layer {
    std::int32_t layer;
    double rows;  // of each place that go
    bool lists;
    bool scored;
  };
  for (const Layer& of :
       {Layer{0, 10, false, false}, Layer{1, 10, false, true}, Layer{2, 4, true, true},
        Layer{3, 4, true, true}, Layer{4, 4, true, false}}) {
    CAPTURE(of.layer);
    const double parts = 3.0 * 3.0 / 4.0 * of.rows;  // places, shares of heads
    CHECK(sent(prompt, BufferKind::query, of.layer) == e * parts * h * d);
    CHECK(sent(prompt, BufferKind::gathered, of.layer) == e * parts * 2 * kv * d);
    CHECK(sent(prompt, BufferKind::attention, of.layer) == e * parts * h * d);
    CHECK(sent(prompt, BufferKind::softmax, of.layer) == 4 * parts * 2 * h * (of.scored ? 2 : 1));
    CHECK(sent(prompt, BufferKind::selection, of.layer) ==
          (of.lists ? 4.0 * 3.0 / 4.0 * of.rows * 4.0 * kv : 0.0));
    // A layer's scores travel when the next one wants them.
    CHECK(sent(prompt, BufferKind::scores, of.layer + 1) == (of.scored ? 4 * parts * kv : 0.0));
  }
  // The last layer: the last row asks.
  CHECK(sent(prompt, BufferKind::query, 5) == e * 3.0 / 4.0 * h * d);
  CHECK(sent(prompt, BufferKind::gathered, 5) == e * 3.0 * 3.0 / 4.0 * 10 * 2 * kv * d);
  CHECK(sent(prompt, BufferKind::selection, 5) == 0.0);
}

TEST_CASE("planner/sparse: what a layer sends, of two levels and four devices with equal parts") {
  SUBCASE("f32: 4 bytes a number") { check_sent(model::WireFormat::f32, 4.0); }
  SUBCASE("f16: 2, but of lists, softmax and scores") { check_sent(model::WireFormat::f16, 2.0); }
}

TEST_CASE("planner/sparse: a new token asks everybody: (N - 1) L (2 H d e + 8 H) bytes") {
  const Plan plan = plan_of(request_of(rooms({0, 0, 1}, {1e-2}), {.levels = 3, .drop = 0.5}));
  const model::TaskGraph token =
      planner::find_strategy("csps").lower(plan, planner::decode_batch(40));
  double bytes = 0.0;
  for (const Task& task : token.tasks())
    if (task.kind == TaskKind::transfer) bytes += static_cast<double>(model::payload_bytes(task));
  const double h = 8;
  const double d = static_cast<double>(plan.model.head_dim);
  CHECK(bytes == 2.0 * 6.0 * (2.0 * h * d * 4.0 + 8.0 * h));
}

TEST_CASE("planner/sparse: attention does its share of the work, and scores half of it again") {
  const auto flops = [](const Plan& plan, std::int32_t layer, TaskKind kind) {
    const model::TaskGraph prompt =
        planner::find_strategy("csps").lower(plan, planner::prompt_batch({40, 4}));
    double all = 0.0;
    for (const Task& task : prompt.tasks()) {
      if (task.kind == kind && task.layer == layer)
        all += model::work_of(plan.model, prompt.batch(), task).flops;
    }
    return all;
  };
  const Plan plan = plan_of(request_of(rooms({0, 0, 0, 0}, {}), {.levels = 2, .drop = 0.6}));
  const double pair = 4.0 * 8.0 * static_cast<double>(plan.model.head_dim);
  CHECK(flops(plan, 0, TaskKind::attend) == pair * 40 * 41 / 2);
  CHECK(flops(plan, 1, TaskKind::score) == pair / 2 * 40 * 41 / 2);
  // Own rows whole, of six pairs of places 4 rows each.
  CHECK(flops(plan, 2, TaskKind::attend) == pair * (4 * 55 + 6 * 16));
  CHECK(flops(plan, 2, TaskKind::score) == pair / 2 * (4 * 55 + 6 * 16));
  CHECK(flops(plan, 4, TaskKind::score) == 0.0);
}

TEST_CASE("planner/sparse: levels that overlap send all rows to all, and mask as they lie") {
  const auto prompt_of = [](const Plan& plan) {
    return planner::find_strategy("csps").lower(plan, planner::prompt_batch({40, 4}));
  };
  const Plan plan =
      plan_of(request_of(rooms({0, 0, 0, 0}, {}), {.levels = 2, .drop = 0.6, .overlap = true}));
  const model::TaskGraph prompt = prompt_of(plan);
  const double h = 8;
  const double kv = 4;
  const double d = static_cast<double>(plan.model.head_dim);
  // Four places, each to three others a quarter of the heads: of 10 rows, or 4 that are kept.
  for (const auto& [layer, rows] : std::vector<std::pair<std::int32_t, double>>{{0, 10}, {2, 4}}) {
    const double parts = 4.0 * 3.0 / 4.0 * rows;
    CHECK(sent(prompt, BufferKind::query, layer) == 4 * parts * h * d);
    CHECK(sent(prompt, BufferKind::gathered, layer) == 4 * parts * 2 * kv * d);
    CHECK(sent(prompt, BufferKind::attention, layer) == 4 * parts * h * d);
  }
  double flops = 0.0;
  for (const Task& task : prompt.tasks()) {
    if (task.kind == TaskKind::attend && task.layer == 2)
      flops += model::work_of(plan.model, prompt.batch(), task).flops;
  }
  // Own rows whole, and the 16 that all kept, each up to itself.
  CHECK(flops == 4.0 * h * d * (4 * 55 + 16 * 17 / 2));
}

TEST_CASE("planner/sparse: heads that drop apart send what each keeps") {
  Plan plan = plan_of(request_of(rooms({0, 0, 0, 0}, {}), {.levels = 2, .drop = 0.6}));
  plan.sparse->drop[2].front().parts = {0.6, 0.0, 0.9, 0.9};
  const model::TaskGraph prompt =
      planner::find_strategy("csps").lower(plan, planner::prompt_batch({40, 4}));
  const double d = static_cast<double>(plan.model.head_dim);
  // Rows that the four key/value heads keep, of 10; each device attends with one of them.
  const double rows = 4 + 10 + 1 + 1;
  // Three of four places send to three others: head k to place k, if that is another.
  const double queries = 3 * rows - (rows - 4);  // places 1, 2 and 3
  const double keys = 3 * rows - (rows - 1);     // places 0, 1 and 2
  CHECK(sent(prompt, BufferKind::query, 2) == 4 * queries * 2 * d);
  CHECK(sent(prompt, BufferKind::gathered, 2) == 4 * keys * 2 * d);
  CHECK(sent(prompt, BufferKind::attention, 2) == 4 * queries * 2 * d);
  CHECK(sent(prompt, BufferKind::selection, 2) == 4 * 3 * (rows - 10));
}

TEST_CASE("planner/sparse: graphs are in order, and declare what they use") {
  for (const auto& [cluster, levels] :
       std::vector<std::pair<model::Cluster, int>>{{rooms({0, 0}, {}), 2},
                                                   {rooms({0, 0, 1}, {1e-2}), 3},
                                                   {rooms({0, 0, 1, 1}, {1e-2}), 3},
                                                   {rooms({0, 2, 0, 1, 1}, {1e-3, 3e-2}), 4}}) {
    // Of levels that overlap heads drop apart, too.
    for (const auto& [drop, overlap] :
         std::vector<std::pair<double, bool>>{{0.0, false}, {0.5, false}, {0.5, true}}) {
      for (const std::int64_t prompt : {1, 2, 4, 5, 33}) {
        Plan plan = plan_of(
            request_of(cluster, {.levels = levels, .drop = drop, .overlap = overlap}, {prompt, 4}));
        if (overlap) plan.sparse->drop[2].back().parts = {0.5, 0.9, 0.9, 0.95};
        CAPTURE(levels);
        CAPTURE(drop);
        CAPTURE(overlap);
        CAPTURE(prompt);
        check_graphs(plan);
      }
    }
  }
}

// Of a prompt.
struct Sums {
  std::map<std::pair<BufferKind, std::int32_t>, double> bytes{};  // by layer
  double flops = 0.0;
  int asking = 0;  // messages
  bool operator==(const Sums&) const = default;
};

TEST_CASE("planner/sparse: tiles of levels send, and compute, what there is without, in order") {
  const auto sums = [](const Plan& plan) {
    const model::TaskGraph graph =
        planner::find_strategy("csps").lower(plan, planner::prompt_batch(plan.workload));
    Sums all;
    for (const Task& task : graph.tasks()) {
      all.flops += model::work_of(plan.model, graph.batch(), task).flops;
      if (task.kind != TaskKind::transfer) continue;
      all.bytes[{task.input.kind, task.layer}] += static_cast<double>(model::payload_bytes(task));
      if (task.input.kind == BufferKind::query && task.layer == 0) ++all.asking;
    }
    return all;
  };
  for (const auto& [drop, overlap] :
       std::vector<std::pair<double, bool>>{{0.0, false}, {0.5, false}, {0.5, true}}) {
    for (const std::int64_t prompt : {2, 5, 40}) {
      for (const bool apart : {false, true}) {
        planner::Request request =
            request_of(rooms({0, 0, 1, 1}, {1e-2}), {.levels = 3, .drop = drop, .overlap = overlap},
                       {prompt, 4});
        Plan whole = plan_of(request);
        if (apart) whole.sparse->drop[2].back().parts = {0.75, 0.9, 0.9, 0.95};
        whole = planner::with_predicted_memory(std::move(whole));
        const Sums without = sums(whole);
        for (const std::vector<std::int32_t>& tiles :
             std::vector<std::vector<std::int32_t>>{{1}, {3}, {2, 4}, {1, 64}}) {
          CAPTURE(drop);
          CAPTURE(overlap);
          CAPTURE(prompt);
          CAPTURE(apart);
          CAPTURE(tiles.back());
          Plan plan = whole;
          plan.sparse->set_tiles(tiles);
          check_graphs(plan);
          Sums with = sums(plan);
          if (prompt == 40 && tiles.front() == 3) CHECK(with.asking == 3 * without.asking);
          with.asking = without.asking;
          CHECK(with == without);
          plan = planner::with_predicted_memory(std::move(plan));
          for (std::size_t d = 0; d < plan.devices.size(); ++d) {
            const model::MemoryUse& memory = plan.devices[d].memory;
            CHECK(memory.weights == whole.devices[d].memory.weights);
            CHECK(memory.kv_cache == whole.devices[d].memory.kv_cache);
            CHECK(memory.activations == whole.devices[d].memory.activations);
          }
        }
      }
    }
  }
}

TEST_CASE("planner/sparse: tiles of levels are those asked for, one for all, or the fastest") {
  planner::Request request =
      request_of(rooms({0, 0, 1}, {1e-2}), {.levels = 3, .drop = 0.5, .tiles = {2, 4}});
  const Plan plan = plan_of(request);
  CHECK(plan.tiles == 0);
  CHECK(plan.sparse->tiles == std::vector<std::vector<std::int32_t>>(6, {2, 4}));
  CHECK(planner::parse_plan_json(planner::to_json(plan), "plan.json") == plan);
  request.sparse->tiles = {3};
  CHECK(plan_of(request).sparse->tiles == std::vector<std::vector<std::int32_t>>(6, {3, 3}));
  request.sparse->tiles = {1};
  const Plan whole = plan_of(request);
  CHECK(whole.sparse->tiles.empty());
  CHECK(planner::to_json(whole).find("\"tiles\": [") == std::string::npos);
  // Of a plan file that says it of every level, the same graph.
  Plan ones = whole;
  ones.sparse->tiles.assign(6, {1, 1});
  const auto tasks = [](const Plan& of) {
    return planner::find_strategy("csps").lower(of, planner::prompt_batch(of.workload)).size();
  };
  CHECK(tasks(ones) == tasks(whole));
  request.sparse->tiles = {};
  const Plan fastest = plan_of(request);
  for (const std::int32_t tiles : {1, 2, 4}) {
    request.sparse->tiles = {tiles};
    CHECK(planner::predicted_request_time(fastest, request.evaluate) <=
          planner::predicted_request_time(plan_of(request), request.evaluate) * (1 + 1e-6));
  }
}

TEST_CASE("planner/sparse: the plan file has it, and none without") {
  planner::Request request =
      request_of(rooms({0, 2, 0, 1, 1}, {1e-3, 3e-2}), {.levels = 4, .drop = 0.3});
  const Plan plan = plan_of(request);
  const std::string text = planner::to_json(plan);
  CHECK(planner::parse_plan_json(text, "plan.json") == plan);
  const nlohmann::json good = nlohmann::json::parse(text);
  const auto refused = [&](const std::function<void(nlohmann::json&)>& spoil, const char* says) {
    nlohmann::json bad = good;
    spoil(bad["sparse_attention"]);
    CHECK_THROWS_WITH_AS((void)planner::parse_plan_json(bad.dump(), "plan.json"),
                         doctest::Contains(says), Error);
  };
  refused([](auto& j) { j["more"] = 1; }, "more");
  refused([](auto& j) { j.erase("drop"); }, "drop");
  refused([](auto& j) { j["drop"][0] = {0.1, 0.1, 0.1}; }, "first two layers");
  refused([](auto& j) { j["drop"][1][2] = 0.1; }, "first two layers");
  refused([](auto& j) { j["drop"][5] = {0.0, 0.1, 0.1}; }, "first two layers");
  refused([](auto& j) { j["drop"][2] = {0.5, 0.4, 0.6}; }, "do not fall");
  refused([](auto& j) { j["drop"][2] = {0.5, 0.6, 1.0}; }, "less than 1");
  refused([](auto& j) { j["drop"][2] = {0.5, 0.6}; }, "levels 2 to 4");
  refused([](auto& j) { j["drop"].erase(2); }, "layers");
  refused([](auto& j) { j["groups"][0] = {0, 1, 0, 2, 2}; }, "adjacent");
  refused([](auto& j) { j["groups"][1] = {0, 1, 1, 1, 2}; }, "within one of the next");
  refused([](auto& j) { j["groups"][1] = {0, 1}; }, "one for each");
  refused([](auto& j) { std::swap(j["order"][0], j["order"][4]); }, "the master");
  refused([](auto& j) { j["order"][0] = j["order"][1]; }, "twice");
  // By head: a number for each of the four, and only then more than a number for all.
  nlohmann::json by_head = good;
  by_head["sparse_attention"]["drop"][3][2] = {0.9, 0.875, 0.9, 0.95};
  const Plan apart = planner::parse_plan_json(by_head.dump(), "plan.json");
  CHECK(apart.sparse->dropped(3, 4, 3) == 0.95);
  CHECK(apart.sparse->head_runs(3, 4, 4).size() == 4);
  CHECK(apart.sparse->head_runs(3, 3, 4) == std::vector<Range>{{0, 4}});
  CHECK(planner::parse_plan_json(planner::to_json(apart), "plan.json") == apart);
  const std::vector<double> less{0.9, 0.9, 0.5, 0.9};
  refused([](auto& j) { j["drop"][3][2] = {0.9, 0.9}; }, "each of the 4 key/value heads");
  refused([](auto& j) { j["drop"][3][2] = nlohmann::json::array({0.9}); },
          "a number, or one for each of the 4 key/value heads");
  refused([](auto& j) { j["drop"][3][2] = nlohmann::json::array(); }, "each of the 4 key/value");
  refused([](auto& j) { j["drop"][3][2] = {0.9, 0.9, 0.9, 1.0}; }, "key/value head 3 drops 1.0000");
  refused([](auto& j) { j["drop"][3][2] = {0.9, 0.9, 0.9, 1.5}; }, "1.5");
  refused([&](auto& j) { j["drop"][3][2] = less; }, "key/value head 2 drops 0.5000 after 0.65");
  refused([](auto& j) { j["drop"][1][2] = {0.0, 0.0, 0.0, 0.1}; }, "first two layers");
  CHECK(text.find("overlap") == std::string::npos);
  request.sparse->overlap = true;
  const Plan overlapping = plan_of(request);
  CHECK(planner::parse_plan_json(planner::to_json(overlapping), "plan.json") == overlapping);
  CHECK(overlapping.sparse->overlap);
  refused([](auto& j) { j["overlap"] = 1; }, "overlap");
  const std::vector<std::vector<int>> ones(6, {1, 1, 1});
  refused([](auto& j) { j["tiles"] = 2; }, "tiles");
  refused([&](auto& j) { (j["tiles"] = ones)[5] = {1, 0, 1}; }, "tiles");
  refused([&](auto& j) { (j["tiles"] = ones)[5] = {1, 65, 1}; }, "tiles");
  refused([&](auto& j) { (j["tiles"] = ones).erase(0); }, "tiles of 5 layers: expected those of 6");
  refused(
      [&](auto& j) {
        (j["tiles"] = ones)[5] = {1, 1};
      },
      "tiles of layer 5: 2 numbers: expected 3, of levels 2 to 4");
  request.sparse.reset();
  CHECK(planner::to_json(plan_of(request)).find("sparse") == std::string::npos);
}

TEST_CASE("planner/sparse: who has no rows of the plan's prompt has weights and a session") {
  // Fewer rows than devices: all are the master's, but the others are there for longer texts.
  const model::Cluster cluster = rooms({0, 0, 1, 1}, {1e-3});
  const Plan few = plan_of(request_of(cluster, {.levels = 2}, {3, 4}));
  const Plan many = plan_of(request_of(cluster, {.levels = 2}, {40, 4}));
  for (std::size_t d = 0; d < few.devices.size(); ++d) {
    CHECK(few.devices[d].memory.weights > 0.0);
    CHECK(few.devices[d].memory.weights == many.devices[d].memory.weights);
  }
}

TEST_CASE("planner/sparse: what it does not do is refused, in a line that says what does") {
  const planner::Request good = request_of(rooms({0, 0, 1}, {1e-2}), {.levels = 2, .drop = 0.5});
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
  refused([](auto& r) { r.strategy = "tensor"; }, "use strategy 'galaxy' or 'csps'");
  refused([](auto& r) { r.tiles = 2; }, "leave out '--tiles'");
  refused([](auto& r) { r.window.blocks = 2; }, "'--window all'");
  refused([](auto& r) { r.capacity = {.rows = 40, .positions = 128, .sequences = 2, .steps = 1}; },
          "leave out '--workload'");
  refused([](auto& r) { r.sparse->levels = 1; }, "levels 1: expected 2 to 8");
  refused([](auto& r) { r.sparse->drop = 1.0; }, "drop 1.0000: expected");
  refused([](auto& r) { r.sparse->drop = -0.5; }, "drop -0.5000: expected");
  refused([](auto& r) { r.sparse->levels = 4; }, "give '--levels 3'");
  refused([](auto& r) { r.sparse->tiles = {0}; }, "tiles 0: expected 1 to 64");
  refused([](auto& r) { r.sparse->tiles = {65}; }, "tiles 65: expected 1 to 64");
  refused([](auto& r) { r.sparse->tiles = {2, 2}; }, "tiles of 2 levels: expected 1");
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
  const Plan plan = plan_of(good);
  planner::GraphCache served(plan);
  CHECK_THROWS_WITH_AS((void)served.graph_of(planner::prompt_batch({40, 4})),
                       doctest::Contains("leave out '--workload'"), Error);
  CHECK_THROWS_WITH_AS((void)planner::find_strategy("csps").lower(
                           plan, {{{.sequence = 0, .rows = 3}, {.sequence = 1, .rows = 3}}}),
                       doctest::Contains("a step of 2 sequences"), Error);
  CHECK_THROWS_WITH_AS(planner::GenerationSteps(plan, planner::Workload{39, 4}),
                       doctest::Contains("'--prompt-tokens 39'"), Error);
  CHECK_THROWS_WITH_AS(planner::GenerationSteps(plan, planner::Workload{1, 1}),
                       doctest::Contains("a prompt of 1 token"), Error);
  CHECK_NOTHROW(planner::GenerationSteps(plan, planner::Workload{17, 1}));
  CHECK_NOTHROW(planner::GenerationSteps(plan, planner::Workload{40, 2}));
}

}  // namespace
}  // namespace tandem::test::csps_sparse_test
