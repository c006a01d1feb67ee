// The LM head split over devices: ranges, plans and their files, messages and room for them.

#include "planner/strategy/common/head.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/base/error.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "model/graph/conflicts.hpp"
#include "planner/bounds/bound.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/search/request_checks.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::head_test {
namespace {

using model::Range;
using planner::HeadPlacement;
using planner::Plan;

planner::Request request_of(const std::string& strategy, std::int64_t vocab,
                            const std::vector<DeviceSpec>& devices, HeadPlacement head) {
  return {.model = small_model({.layers = 4,
                                .heads = 8,
                                .kv_heads = 4,
                                .head_dim = 4,
                                .intermediate = 64,
                                .vocab = vocab}),
          .cluster = star_cluster(devices),
          .strategy = strategy,
          .partition = "equal",
          .workload = {9, 4},
          .head = head};
}

Plan planned(const planner::Request& request) {
  auto made = planner::make_plan(request);
  if (const auto* no = std::get_if<planner::Infeasible>(&made)) throw Error(no->reason);
  return std::get<Plan>(std::move(made));
}

Plan planned(const std::string& strategy, HeadPlacement head, std::int64_t vocab = 11) {
  return planned(request_of(strategy, vocab, std::vector<DeviceSpec>(4), head));
}

std::vector<Range> ranges_of(const Plan& plan) {
  std::vector<Range> ranges;
  for (const planner::DevicePlan& device : plan.devices) ranges.push_back(device.share.vocabulary);
  return ranges;
}

double sent(const Plan& plan, const model::Batch& batch) {
  const model::TaskGraph graph = planner::find_strategy(plan.strategy).lower(plan, batch);
  double bytes = 0.0;
  for (const model::Task& task : graph.tasks()) {
    if (task.kind == model::TaskKind::transfer && !task.columns.empty())
      bytes += static_cast<double>(model::payload_bytes(task));
  }
  return bytes;
}

TEST_CASE("planner/head: rows follow one another, in units where there are many") {
  CHECK(ranges_of(planned("tensor", HeadPlacement::split, 11)) ==
        std::vector<Range>{{0, 3}, {3, 6}, {6, 9}, {9, 11}});
  CHECK(ranges_of(planned("tensor", HeadPlacement::split, 4096)) ==
        std::vector<Range>{{0, 1024}, {1024, 2048}, {2048, 3072}, {3072, 4096}});
  // What is left of whole units is the last device's.
  CHECK(ranges_of(planned("tensor", HeadPlacement::split, 4099)).back() == Range{3072, 4099});
  planner::Request by_speed =
      request_of("tensor", 4096, {{.flops_per_s = 1e9}, {.flops_per_s = 2e9}, {.flops_per_s = 5e9}},
                 HeadPlacement::split);
  by_speed.partition = "galaxy";
  CHECK(ranges_of(planned(by_speed)) == std::vector<Range>{{0, 512}, {512, 1536}, {1536, 4096}});
  by_speed.partition = "1:1:2";
  CHECK(ranges_of(planned(by_speed)).back() == Range{2048, 4096});
}

TEST_CASE("planner/head: rows go where memory has room") {
  std::vector<DeviceSpec> devices(3);
  const auto bytes_of = [](const Plan& plan, std::size_t d) {
    return plan.devices[d].memory.total();
  };
  planner::Request request = request_of("tensor", 4096, devices, HeadPlacement::master);
  const double alone = bytes_of(planned(request), 2);
  const double row = static_cast<double>(request.model.head_row_bytes());
  // Device 2 has room for 200 rows, so for 3 units.
  devices[2].memory_bytes = alone + 200.0 * (row + 4.0) + 2.0 * 4.0 * 4096.0;
  devices[2].disk_bytes_per_s = 0.0;
  request = request_of("tensor", 4096, devices, HeadPlacement::split);
  const Plan plan = planned(request);
  CHECK(plan.devices[2].share.vocabulary.size() < 1280);
  CHECK(plan.devices[2].share.vocabulary.size() > 0);
  CHECK(ranges_of(plan).back().end == 4096);
  for (std::size_t d = 0; d < 3; ++d) CHECK(bytes_of(plan, d) <= devices[d].memory_bytes);
}

TEST_CASE("planner/head: where only the master has room, split is infeasible and auto is not") {
  std::vector<DeviceSpec> devices(2, {.disk_bytes_per_s = 0.0});
  planner::Request request = request_of("tensor", 4096, devices, HeadPlacement::master);
  devices[1].memory_bytes = planned(request).devices[1].memory.total();
  request = request_of("tensor", 4096, devices, HeadPlacement::split);
  const auto answer = planner::make_plan(request);
  REQUIRE(std::holds_alternative<planner::Infeasible>(answer));
  CHECK(std::get<planner::Infeasible>(answer).reason.find("beside the master") !=
        std::string::npos);
  request.head = HeadPlacement::automatic;
  CHECK(!planner::splits_head(planned(request)));
}

TEST_CASE("planner/head: at the master nothing changes, and a plan's file is the same bytes") {
  for (const char* const strategy : {"tensor", "galaxy", "csps", "pipeline"}) {
    CAPTURE(strategy);
    planner::Request request =
        request_of(strategy, 11, std::vector<DeviceSpec>(4), HeadPlacement::master);
    const std::string plain = planner::to_json(planned(request));
    CHECK(plain.find("vocabulary") == std::string::npos);
    const Plan split = planned(strategy, HeadPlacement::split);
    CHECK(planner::splits_head(split));
    CHECK(planner::parse_plan_json(planner::to_json(split), "plan.json") == split);
  }
}

TEST_CASE("planner/head: a token's messages are the stream for all, and logits to the master") {
  const model::Batch token = planner::decode_batch(9);
  const auto hidden =
      static_cast<double>(4 * planned("tensor", HeadPlacement::master).model.hidden);
  // Of 11 rows of the vocabulary the master has 3.
  const double logits = 4.0 * 8.0;
  for (const char* const strategy : {"tensor", "galaxy", "csps", "pipeline"}) {
    CAPTURE(strategy);
    const double more = sent(planned(strategy, HeadPlacement::split), token) -
                        sent(planned(strategy, HeadPlacement::master), token);
    // With the star the last sum goes to three more; the pipeline sends them the stream.
    CHECK(more == 3.0 * hidden + logits);
  }
  // Of a prompt one row is sampled: the same.
  const model::Batch prompt = planner::prompt_batch({9, 4});
  CHECK(sent(planned("tensor", HeadPlacement::split), prompt) -
            sent(planned("tensor", HeadPlacement::master), prompt) ==
        3.0 * hidden + logits);
}

TEST_CASE("planner/head: logits travel in f32, whatever activations do") {
  planner::Request request =
      request_of("tensor", 11, std::vector<DeviceSpec>(4), HeadPlacement::split);
  request.wire = model::WireFormat::f16;
  const Plan plan = planned(request);
  const model::TaskGraph graph =
      planner::find_strategy("tensor").lower(plan, planner::decode_batch(9));
  int found = 0;
  for (const model::Task& task : graph.tasks()) {
    if (task.kind != model::TaskKind::transfer || task.columns.empty()) continue;
    const bool logits = task.input.kind == model::BufferKind::logits;
    found += logits ? 1 : 0;
    CHECK(task.wire == (logits ? model::WireFormat::f32 : model::WireFormat::f16));
  }
  CHECK(found == 3);
}

TEST_CASE("planner/head: with candidates, each device sends 2 K + 1 numbers for a sampled row") {
  const model::Batch token = planner::decode_batch(9);
  const model::Batch three{
      {{.sequence = 0, .rows = 1}, {.sequence = 1, .rows = 1}, {.sequence = 2, .rows = 1}}};
  for (const char* const strategy : {"tensor", "galaxy", "csps", "pipeline"}) {
    CAPTURE(strategy);
    const auto hidden =
        static_cast<double>(4 * planned(strategy, HeadPlacement::master).model.hidden);
    for (const int candidates : {1, 5, 1024}) {
      CAPTURE(candidates);
      planner::Request request =
          request_of(strategy, 4096, std::vector<DeviceSpec>(4), HeadPlacement::split);
      request.candidates = candidates;
      const Plan plan = planned(request);
      CHECK(plan.candidates == candidates);
      CHECK(planner::parse_plan_json(planner::to_json(plan), "plan.json") == plan);
      const double numbers = 3.0 * 4.0 * (1.0 + 2.0 * candidates);
      request.head = HeadPlacement::master;
      request.candidates = 0;
      const Plan whole = planned(request);
      CHECK(sent(plan, token) - sent(whole, token) == 3.0 * hidden + numbers);
      CHECK(sent(plan, three) - sent(whole, three) == 3.0 * (3.0 * hidden + numbers));
      // Nobody has room for logits of rows that others hold.
      CHECK(plan.devices[0].memory.activations < whole.devices[0].memory.activations + numbers * 2);
    }
  }
}

TEST_CASE("planner/head: auto weighs the master, all logits and candidates") {
  // Links that carry little: logits take longer than the head, a candidate does not.
  std::vector<DeviceSpec> devices(4, {.flops_per_s = 1e7});
  planner::Request request = request_of("tensor", 4096, devices, HeadPlacement::automatic);
  const auto time = [&](HeadPlacement head, std::int32_t candidates) {
    request.head = head;
    request.candidates = candidates;
    return planner::predicted_request_time(planned(request));
  };
  const double best = std::min({time(HeadPlacement::master, 0), time(HeadPlacement::split, 0),
                                time(HeadPlacement::split, 8)});
  CHECK(time(HeadPlacement::split, 8) < time(HeadPlacement::split, 0));
  CHECK(time(HeadPlacement::automatic, 8) == best);
  // More numbers than logits: these are sent, if anything.
  request.head = HeadPlacement::automatic;
  request.candidates = 1024;
  CHECK(planned(request).candidates == 0);
}

TEST_CASE("planner/head: a model whose head the master alone has no room for is split") {
  std::vector<DeviceSpec> devices(3, {.disk_bytes_per_s = 0.0});
  planner::Request request = request_of("tensor", 4096, devices, HeadPlacement::master);
  request.partition = "auto";
  const double half = 0.5 * 4096.0 * static_cast<double>(request.model.head_row_bytes());
  devices[0].memory_bytes = planned(request).devices[0].memory.total() - half;
  for (const char* const partition : {"auto", "galaxy", "equal"}) {
    CAPTURE(partition);
    request = request_of("tensor", 4096, devices, HeadPlacement::master);
    request.partition = partition;
    CHECK(std::holds_alternative<planner::Infeasible>(planner::make_plan(request)));
    for (const HeadPlacement head : {HeadPlacement::split, HeadPlacement::automatic}) {
      request.head = head;
      const Plan plan = planned(request);
      CHECK(planner::splits_head(plan));
      CHECK(ranges_of(plan).back().end == 4096);
      for (std::size_t d = 0; d < 3; ++d)
        CHECK(plan.devices[d].memory.total() <= plan.cluster.devices()[d].memory.value());
    }
  }
  // Where there is too little for the embedding, no split helps.
  devices[0].memory_bytes = half;
  request = request_of("tensor", 4096, devices, HeadPlacement::split);
  CHECK(std::holds_alternative<planner::Infeasible>(planner::make_plan(request)));
}

// Whether `auto` has a plan wherever the proportions `given` have one, for many sizes of the
// master's memory.
void check_rooms(planner::Request request, const std::string& given) {
  request.head = HeadPlacement::master;
  const double most = 1.5 * planned(request).devices[0].memory.total();
  request.head = HeadPlacement::split;
  const auto answer = [&](const std::string& partition) {
    request.partition = partition;
    return planner::make_plan(request);
  };
  int found = 0;
  for (double memory = most; memory > 0.1 * most; memory -= 0.01 * most) {
    request.cluster = model::with_devices(request.cluster, [&](model::Device& device) {
      if (device.name == request.cluster.devices()[0].name) device.memory = model::Bytes{memory};
    });
    CAPTURE(memory);
    if (!std::holds_alternative<Plan>(answer(given))) continue;
    ++found;
    const auto made = answer("auto");
    REQUIRE(std::holds_alternative<Plan>(made));
    CHECK(planner::fits(std::get<Plan>(made)));
  }
  CHECK(found > 20);
}

TEST_CASE("planner/head: rows that fit only once others have fewer are found") {
  // Room for arriving logits grows as the master has fewer of its own.
  check_rooms(request_of("tensor", 4096, std::vector<DeviceSpec>(2, {.disk_bytes_per_s = 0.0}),
                         HeadPlacement::split),
              "1:3");
}

TEST_CASE("planner/head: where logits come to a device that streams, its window makes room") {
  for (const char* const given : {"1:1", "1:4"}) {
    planner::Request request =
        request_of("tensor", 4096, std::vector<DeviceSpec>(2, {.disk_bytes_per_s = 1e8}),
                   HeadPlacement::split);
    request.window.blocks.reset();
    check_rooms(request, given);
  }
}

TEST_CASE("planner/head: a window that was asked for is no narrower") {
  planner::Request request = request_of(
      "tensor", 4096, std::vector<DeviceSpec>(2, {.disk_bytes_per_s = 1e8}), HeadPlacement::split);
  request.window.blocks = 5;
  request.partition = "1:4";
  const Plan roomy = planned(request);
  const double most =
      1.1 * std::max(roomy.devices[0].memory.total(), roomy.devices[1].memory.total());
  int found = 0;
  for (double memory = most; memory > 0.3 * most; memory -= 0.005 * most) {
    request.cluster = model::with_devices(
        request.cluster, [&](model::Device& device) { device.memory = model::Bytes{memory}; });
    const auto made = planner::make_plan(request);
    const auto* const plan = std::get_if<Plan>(&made);
    if (plan == nullptr) continue;
    ++found;
    for (const planner::DevicePlan& device : plan->devices)
      CHECK((!device.window.streams() || device.window.blocks == 5));
  }
  CHECK(found > 3);
}

TEST_CASE("planner/head: with few rows left to stream, a window goes on with less") {
  planner::Request request =
      request_of("pipeline", 4000, std::vector<DeviceSpec>(2, {.disk_bytes_per_s = 1e8}),
                 HeadPlacement::split);
  // Of the size of 8 FFNs is the embedding, which stays in memory unless something streams.
  request.model = small_model(
      {.layers = 2, .heads = 8, .kv_heads = 4, .head_dim = 8, .intermediate = 172, .vocab = 4000});
  request.window.blocks.reset();
  check_rooms(request, "7:3");
}

TEST_CASE("planner/head: candidates of a head at the master, and too many, are refused") {
  planner::Request request =
      request_of("tensor", 11, std::vector<DeviceSpec>(4), HeadPlacement::master);
  request.candidates = 4;
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("--head split"), Error);
  using Json = nlohmann::ordered_json;
  Json file = Json::parse(planner::to_json(planned("tensor", HeadPlacement::master)));
  CHECK(!file.contains("candidates"));
  file["candidates"] = 4;
  CHECK_THROWS_WITH_AS((void)planner::parse_plan_json(file.dump(), "plan.json"),
                       doctest::Contains("the master has the whole LM head"), Error);
  file = Json::parse(planner::to_json(planned("tensor", HeadPlacement::split)));
  for (const int candidates : {0, -1, 1025}) {
    file["candidates"] = candidates;
    CHECK_THROWS_WITH_AS((void)planner::parse_plan_json(file.dump(), "plan.json"),
                         doctest::Contains("candidates"), Error);
  }
}

TEST_CASE("planner/head: graphs of all kinds of steps are in order, and use what they declare") {
  const std::vector<model::Batch> batches{
      planner::prompt_batch({9, 4}),
      planner::decode_batch(9),
      planner::scored_batch(9, 5),
      {{{.sequence = 0, .rows = 1}, {.sequence = 1, .rows = 1}, {.sequence = 2, .rows = 1}}},
      {{{.sequence = 0, .rows = 3}, {.sequence = 1, .rows = 1}, {.sequence = 2, .rows = 4}}},
      {{{.sequence = 0, .rows = 3, .sampled = 0}, {.sequence = 1, .rows = 1}}}};
  for (const char* const strategy : {"tensor", "galaxy", "csps", "pipeline"}) {
    for (const auto& [window, candidates] : {std::pair(0, 0), {2, 0}, {0, 3}, {2, 3}}) {
      planner::Request request =
          request_of(strategy, 300, std::vector<DeviceSpec>(3), HeadPlacement::split);
      request.candidates = candidates;
      request.window = {.blocks = window, .retain = std::nullopt};
      const Plan plan = planned(request);
      CHECK(planner::splits_head(plan));
      for (const model::Batch& batch : batches) {
        CAPTURE(strategy);
        CAPTURE(plan.devices[0].window.blocks);
        CAPTURE(plan.candidates);
        CAPTURE(batch.segments.size());
        const model::TaskGraph graph = planner::find_strategy(strategy).lower(plan, batch);
        CHECK(model::find_conflict(graph) == std::nullopt);
        CHECK(model::undeclared(graph).empty());
      }
    }
  }
}

TEST_CASE("planner/head: auto splits where that is faster") {
  // A slow processor, and links that hardly count: logits are most of a token.
  const std::vector<DeviceSpec> slow(4, {.flops_per_s = 1e6});
  CHECK(planner::splits_head(planned(request_of("tensor", 4096, slow, HeadPlacement::automatic))));
  const std::vector<DeviceSpec> fast(4, {.flops_per_s = 1e13});
  CHECK(!planner::splits_head(planned(request_of("tensor", 11, fast, HeadPlacement::automatic))));
  // Where it is not offered, the master has it.
  for (const char* const strategy : {"sp", "local"}) {
    planner::Request request = request_of(strategy, 4096, slow, HeadPlacement::automatic);
    request.partition = "auto";
    CHECK(!planner::splits_head(planned(request)));
    request.head = HeadPlacement::split;
    CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains("--head master"),
                         Error);
  }
  CHECK_THROWS_WITH_AS(
      (void)planner::make_plan(request_of("tensor", 4096, {{}}, HeadPlacement::split)),
      doctest::Contains("one device alone"), Error);
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request_of("tensor", 3, std::vector<DeviceSpec>(4),
                                                           HeadPlacement::split)),
                       doctest::Contains("a vocabulary of 3 for 4 devices"), Error);
}

TEST_CASE(
    "planner/head: a split token takes less where logits are most of it, never less than the "
    "bound") {
  const std::vector<DeviceSpec> slow(4, {.flops_per_s = 1e6});
  const Plan whole = planned(request_of("tensor", 4096, slow, HeadPlacement::master));
  const Plan split = planned(request_of("tensor", 4096, slow, HeadPlacement::split));
  CHECK(planner::predicted_request_time(split) < 0.6 * planner::predicted_request_time(whole));
  for (const char* const strategy : {"tensor", "galaxy", "pipeline"}) {
    CAPTURE(strategy);
    const Plan plan = planned(request_of(strategy, 4096, slow, HeadPlacement::split));
    const auto bound = planner::request_bound(plan);
    REQUIRE(bound);
    CHECK(bound->lower_bound_s > 0.0);
    CHECK(bound->lower_bound_s <= bound->planned_s);
  }
}

TEST_CASE("planner/head: a file whose ranges do not part the vocabulary is refused") {
  using Json = nlohmann::ordered_json;
  const Json good = Json::parse(planner::to_json(planned("tensor", HeadPlacement::split)));
  const auto refused = [](Json file, const std::function<void(Json&)>& change, const char* reason) {
    change(file["devices"]);
    CAPTURE(reason);
    CHECK_THROWS_WITH_AS((void)planner::parse_plan_json(file.dump(), "plan.json"),
                         doctest::Contains(reason), Error);
  };
  const auto set = [](std::size_t d, int begin, int end) {
    return [=](Json& devices) { devices[d]["vocabulary"] = {begin, end}; };
  };
  refused(good, set(1, 4, 6), "expected them to begin at 3");
  refused(good, set(1, 2, 6), "expected them to begin at 3");
  refused(good, set(3, 9, 10), "end at 10");
  refused(good, set(3, 9, 12), "expected a range within [0, 11)");
  refused(good, set(1, 3, 3), "or no such key");
  refused(
      good, [](Json& devices) { devices[1].erase("vocabulary"); }, "master alone");
  refused(
      good, [](Json& devices) { devices[0].erase("vocabulary"); }, "the whole LM head");
  refused(
      good, [](Json& devices) { devices[1]["head"] = false; }, "'head'");
  refused(
      good, [](Json& devices) { devices[0]["head"] = false; }, "'head'");
  refused(Json::parse(planner::to_json(planned("tensor", HeadPlacement::master))), set(0, 0, 11),
          "no other device holds the rest");
  Json other = Json::parse(planner::to_json(planned("pipeline", HeadPlacement::split)));
  other["capacity"]["steps"] = 2;
  CHECK_THROWS_WITH_AS((void)planner::parse_plan_json(other.dump(), "plan.json"),
                       doctest::Contains("all devices compute logits"), Error);
  planner::Request sp = request_of("sp", 11, std::vector<DeviceSpec>(4), HeadPlacement::master);
  sp.partition = "auto";
  refused(Json::parse(planner::to_json(planned(sp))), set(0, 0, 11), "none with strategy 'sp'");
}

}  // namespace
}  // namespace tandem::test::head_test
