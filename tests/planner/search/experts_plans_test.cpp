// Plans of models with experts and latent attention.

#include <doctest/doctest.h>

#include <numeric>
#include <string>

#include "model/base/error.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/model_support.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::experts_plans_test {
namespace {

using planner::Plan;

model::Transformer with_experts() {
  model::Transformer t =
      small_model({.layers = 6, .heads = 8, .kv_heads = 4, .head_dim = 8, .intermediate = 48});
  t.experts = model::Experts{.count = 16,
                             .chosen = 3,
                             .shared = 96,
                             .dense = 200,
                             .dense_layers = {true, false, false, false, false, false}};
  t.family = model::Family::qwen3_moe;
  return t;
}

model::Transformer latent() {
  model::Transformer t = with_experts();
  t.family = model::Family::deepseek;
  t.kv_heads = 8;
  t.head_dim = 24;
  t.rotary_dims = 8;
  t.latent =
      model::LatentAttention{.query_rank = 32, .rank = 40, .plain = 16, .rotated = 8, .value = 12};
  return t;
}

planner::Request request(const model::Transformer& t, const std::string& strategy, int devices,
                         double memory = 1e12) {
  std::vector<DeviceSpec> specs(static_cast<std::size_t>(devices));
  for (std::size_t d = 0; d < specs.size(); ++d)
    specs[d] = {.flops_per_s = 1e9 * static_cast<double>(d + 1), .memory_bytes = memory};
  const bool splits = planner::find_strategy(strategy).sharding.has_partition();
  return {.model = t,
          .cluster = star_cluster(specs),
          .strategy = strategy,
          .partition = splits ? "auto" : "",
          .workload = {.prompt_tokens = 9, .new_tokens = 4}};
}

std::string error_of(const planner::Request& request) {
  try {
    (void)make_plan(request);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

double sum_of_weights(const Plan& plan) {
  double bytes = 0.0;
  for (const planner::DevicePlan& device : plan.devices)
    bytes += model::weight_bytes(plan.model, device.share);
  return bytes;
}

TEST_CASE("planner/experts: four strategies plan them, and plans are restored from their JSON") {
  for (const model::Transformer& t : {with_experts(), latent()}) {
    for (const char* const strategy : {"local", "tensor", "pipeline", "galaxy"}) {
      for (const int devices : {1, 2, 3}) {
        CAPTURE(strategy);
        CAPTURE(devices);
        const auto answer = make_plan(request(t, strategy, devices));
        REQUIRE(std::holds_alternative<Plan>(answer));
        const Plan& plan = std::get<Plan>(answer);
        plan.validate();
        CHECK(planner::parse_plan_json(to_json(plan), "plan.json") == plan);
        // Every weight is held, and with several holders norms, routers and latent matrices twice.
        const double whole = 4.0 * static_cast<double>(t.parameters());
        CHECK(sum_of_weights(plan) >= whole);
        CHECK(planner::predicted_request_time(plan) > 0.0);
      }
    }
  }
}

TEST_CASE("planner/experts: one expert of one is planned as the dense model") {
  model::Transformer dense = with_experts();
  dense.experts.reset();
  model::Transformer single = dense;
  single.experts = model::Experts{.count = 1, .chosen = 1};
  for (const char* const strategy : {"local", "tensor", "pipeline", "galaxy"}) {
    CAPTURE(strategy);
    const Plan a = std::get<Plan>(make_plan(request(dense, strategy, 3)));
    const Plan b = std::get<Plan>(make_plan(request(single, strategy, 3)));
    REQUIRE(a.devices.size() == b.devices.size());
    for (std::size_t d = 0; d < a.devices.size(); ++d) {
      CHECK(a.devices[d].share == b.devices[d].share);
      CHECK(a.devices[d].memory == b.devices[d].memory);
    }
    CHECK(planner::predicted_request_time(a) == planner::predicted_request_time(b));
  }
}

TEST_CASE("planner/experts: a device keeps the whole latent cache, and others by heads") {
  const model::Transformer t = latent();
  const Plan plan = std::get<Plan>(make_plan(request(t, "tensor", 2)));
  for (const planner::DevicePlan& device : plan.devices) {
    if (device.share.heads.empty()) continue;
    CHECK(model::cache_block_bytes(t, device.share) == 4 * 6 * (40 + 8) * model::kCacheBlock);
  }
}

TEST_CASE("planner/experts: weights that do not fit one device are split exactly") {
  const model::Transformer t = with_experts();
  const double whole = 4.0 * static_cast<double>(t.parameters());
  const planner::Request asked = request(t, "tensor", 3, 0.6 * whole + 3e5);
  const auto answer = make_plan(asked);
  REQUIRE(std::holds_alternative<Plan>(answer));
  const Plan& plan = std::get<Plan>(answer);
  for (std::size_t d = 0; d < plan.devices.size(); ++d)
    CHECK(plan.devices[d].memory.total() <= 0.6 * whole + 3e5);
  std::int64_t dense = 0;
  std::int64_t shared = 0;
  for (const planner::DevicePlan& device : plan.devices) {
    dense += t.ffn_columns(0, device.share.columns).common;
    shared += t.ffn_columns(1, device.share.columns).common;
  }
  CHECK(dense == 200);
  CHECK(shared == 96);
}

TEST_CASE("planner/experts: strategies that replicate weights refuse them by name") {
  for (const char* const strategy : {"sp", "csps", "spread"}) {
    CAPTURE(strategy);
    const std::string experts = error_of(request(with_experts(), strategy, 2));
    CHECK(experts.find(std::string("strategy '") + strategy + "'") != std::string::npos);
    CHECK(experts.find("experts") != std::string::npos);
    CHECK(experts.find("'pipeline'") != std::string::npos);
    CHECK(error_of(request(latent(), strategy, 2)).find("latent attention") != std::string::npos);
  }
  for (const planner::Strategy& strategy : planner::strategies()) {
    model::Transformer dense = with_experts();
    dense.experts.reset();
    CHECK(planner::model_obstacle(strategy, dense).empty());
  }
}

}  // namespace
}  // namespace tandem::test::experts_plans_test
