// Who computes the FFN of new tokens.

#include "planner/search/token_ffn.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "model/cluster/cluster_edit.hpp"
#include "model/graph/conflicts.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::token_ffn_test {
namespace {

using model::BufferKind;
using planner::Plan;

planner::Request request_of(std::size_t devices, std::int64_t intermediate) {
  return {
      .model = small_model({.layers = 3, .heads = 6, .kv_heads = 2, .intermediate = intermediate}),
      .cluster = star_cluster(std::vector<DeviceSpec>(devices, {.memory_bytes = 1e9})),
      .strategy = "spread",
      .partition = "equal",
      .workload = {10, 8}};
}

TEST_CASE("planner/token ffn: an FFN that is shared out moves 2 h e a layer and device more") {
  for (const std::size_t devices : {2U, 4U}) {
    planner::Request request = request_of(devices, 6);
    const Plan alone = std::get<Plan>(planner::make_plan(request));
    request.token_ffn = planner::TokenFfn::shared;
    const Plan plan = std::get<Plan>(planner::make_plan(request));
    CHECK(planner::shares_token_ffn(plan));
    CHECK(!planner::shares_token_ffn(alone));
    CHECK(planner::parse_plan_json(planner::to_json(plan), "plan") == plan);
    const planner::Strategy& strategy = planner::find_strategy("spread");
    const model::TaskGraph token = strategy.lower(plan, planner::decode_batch(10));
    CHECK(model::find_conflict(token).value_or("") == "");
    CHECK(model::undeclared(token).empty());
    const double row = static_cast<double>(plan.model.hidden * plan.model.layers) * 4.0;
    CHECK(sent(token, BufferKind::hidden) == (static_cast<double>(devices) - 1.0) * row);
    CHECK(sent(token, BufferKind::partial) == (static_cast<double>(devices) - 1.0) * row);
    // The products are those of one device, column by column.
    std::int64_t columns = 0;
    for (const model::Task& task : token.tasks()) {
      if (task.kind == model::TaskKind::ffn_down) columns += task.columns.size();
    }
    CHECK(columns == plan.model.intermediate * plan.model.layers);
    // Prompts are as before.
    CHECK(strategy.lower(plan, planner::prompt_batch({10, 4})).tasks().size() ==
          strategy.lower(alone, planner::prompt_batch({10, 4})).tasks().size());
  }
}

TEST_CASE(
    "planner/token ffn: who computes an FFN of new tokens is what is predicted to be fastest") {
  planner::Request request = request_of(3, 3200);
  // Weights that take a while to read: 0.4 ms a layer of 1 Gflop/s.
  const auto seconds = [&](planner::TokenFfn who, double latency) {
    request.token_ffn = who;
    planner::Request at = request;
    at.cluster = model::with_links(request.cluster, [&](model::Link& link) {
      link.latency = model::Seconds{latency};
      link.bandwidth = model::BytesPerSecond{1e9};
    });
    return planner::predicted_request_time(std::get<Plan>(planner::make_plan(at)));
  };
  using enum planner::TokenFfn;
  int shares = 0;
  for (const double latency : {1e-7, 1e-6, 1e-5, 1e-4, 1e-3}) {
    CAPTURE(latency);
    const double chosen = seconds(automatic, latency);
    CHECK(chosen <= std::min(seconds(owner, latency), seconds(shared, latency)) * (1.0 + 1e-9));
    if (chosen < seconds(owner, latency)) ++shares;
  }
  CHECK(shares > 0);
  CHECK(shares < 5);
}

TEST_CASE("planner/token ffn: columns are in proportion to what is left of the time of messages") {
  // Device 2 is twice as fast, device 1 far away.
  planner::Request request = request_of(3, 3200);
  request.cluster = model::with_links(request.cluster, [&](model::Link& link) {
    link.latency = model::Seconds{link.name == "l1" ? 1.0 : 0.0};
    link.bandwidth = model::BytesPerSecond{1e12};
  });
  request.cluster = model::with_devices(request.cluster, [](model::Device& device) {
    if (device.name != "d2") return;
    device.flop_rate = device.flop_rate * 2.0;
    device.memory_bandwidth = device.memory_bandwidth * 2.0;
  });
  const Plan alone = std::get<Plan>(planner::make_plan(request));
  const Plan near = planner::with_shared_ffn(alone, true);
  CHECK(near.devices[0].share.part.columns.size() == doctest::Approx(3200 / 3.0).epsilon(0.02));
  CHECK(near.devices[1].share.part.columns.empty());
  CHECK(near.devices[2].share.part.columns.size() == doctest::Approx(6400 / 3.0).epsilon(0.02));
  const Plan all = planner::with_shared_ffn(alone, false);
  // What would be asked for to have such plans again.
  CHECK(planner::token_ffn_of(alone) == planner::TokenFfn::owner);
  CHECK(planner::token_ffn_of(all) == planner::TokenFfn::shared);
  CHECK(planner::token_ffn_of(near) == planner::TokenFfn::automatic);
  CHECK(all.devices[1].share.part.columns.size() == doctest::Approx(800).epsilon(0.02));
}

}  // namespace
}  // namespace tandem::test::token_ffn_test
