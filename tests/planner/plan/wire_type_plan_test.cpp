// Types in which activations travel: bytes of messages, plans and their files.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/work.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::wire_type_plan_test {
namespace {

using model::WireFormat;
using planner::Plan;

// Widths of 64 and 32: whole blocks of q8_0.
Plan planned(const std::string& strategy, const std::string& allreduce, WireFormat wire) {
  planner::Request request{
      .model =
          small_model({.layers = 4, .heads = 4, .kv_heads = 2, .head_dim = 32, .intermediate = 64}),
      .cluster = star_cluster(std::vector<DeviceSpec>(4)),
      .strategy = strategy,
      .partition = "equal",
      .workload = {9, 4},
      .wire = wire};
  if (!allreduce.empty()) request.allreduce = allreduce;
  if (strategy == "sp") request.partition = "auto";
  auto made = planner::make_plan(request);
  REQUIRE(std::holds_alternative<Plan>(made));
  return std::get<Plan>(std::move(made));
}

double wire_bytes(const Plan& plan, const model::Batch& batch) {
  const model::TaskGraph graph = planner::find_strategy(plan.strategy).lower(plan, batch);
  double bytes = 0.0;
  for (const model::Task& task : graph.tasks()) {
    if (task.kind != model::TaskKind::transfer || task.columns.empty()) continue;
    const double sent = model::work_of(plan.model, batch, task).bytes_wire;
    CHECK(sent == static_cast<double>(model::payload_bytes(task)));
    bytes += sent;
  }
  return bytes;
}

struct Given {
  const char* strategy;
  const char* allreduce;
};
constexpr Given kAll[] = {
    {"tensor", "star"},      {"tensor", "ring"},         {"tensor", "halving"},
    {"tensor", "tree"},      {"tensor", "hierarchical"}, {"pipeline", ""},
    {"galaxy", "ring,star"}, {"galaxy", "star,ring"},    {"sp", "ring"},
    {"csps", "star"}};

TEST_CASE("planner/wire: messages are 1/2, 1/2 and 34/128 of f32's where blocks are whole") {
  for (const Given& given : kAll) {
    CAPTURE(given.strategy);
    CAPTURE(given.allreduce);
    const Plan plain = planned(given.strategy, given.allreduce, WireFormat::f32);
    REQUIRE(plain.model.hidden % (32 * 4) == 0);
    for (const model::Batch& batch : {planner::prompt_batch({9, 4}), planner::decode_batch(9)}) {
      const double bytes = wire_bytes(plain, batch);
      const auto with = [&](WireFormat wire) {
        return wire_bytes(planned(given.strategy, given.allreduce, wire), batch);
      };
      CHECK(with(WireFormat::f16) * 2 == bytes);
      CHECK(with(WireFormat::bf16) * 2 == bytes);
      CHECK(with(WireFormat::q8_0) * 128 == bytes * 34);
    }
  }
}

TEST_CASE("planner/wire: shorter messages need less room, and take less time on slow links") {
  for (const Given& given : kAll) {
    CAPTURE(given.strategy);
    const Plan plain = planned(given.strategy, given.allreduce, WireFormat::f32);
    const Plan half = planned(given.strategy, given.allreduce, WireFormat::f16);
    for (std::size_t d = 0; d < plain.devices.size(); ++d) {
      CHECK(half.devices[d].memory.buffers <= plain.devices[d].memory.buffers);
      CHECK(half.devices[d].memory.kv_cache == plain.devices[d].memory.kv_cache);
      CHECK(half.devices[d].memory.activations == plain.devices[d].memory.activations);
    }
    CHECK(planner::predicted_request_time(half) <= planner::predicted_request_time(plain));
  }
}

TEST_CASE("planner/wire: a plan's file says the type, but of f32, and others are refused") {
  const Plan plain = planned("tensor", "star", WireFormat::f32);
  CHECK(planner::to_json(plain).find("\"wire\"") == std::string::npos);
  for (const WireFormat wire : {WireFormat::f16, WireFormat::bf16, WireFormat::q8_0}) {
    const Plan plan = planned("tensor", "star", wire);
    CHECK(planner::parse_plan_json(planner::to_json(plan), "plan.json") == plan);
  }
  nlohmann::ordered_json file =
      nlohmann::ordered_json::parse(planner::to_json(planned("tensor", "star", WireFormat::f16)));
  const auto refused = [&](const char* wire, const char* reason) {
    file["wire"] = wire;
    CHECK_THROWS_WITH_AS((void)planner::parse_plan_json(file.dump(), "plan.json"),
                         doctest::Contains(reason), Error);
  };
  refused("q4_0", "f32, f16, bf16, q8_0");
  refused("f32", "no such key");
  file["wire"] = 3;
  CHECK_THROWS_AS((void)planner::parse_plan_json(file.dump(), "plan.json"), Error);
}

}  // namespace
}  // namespace tandem::test::wire_type_plan_test
