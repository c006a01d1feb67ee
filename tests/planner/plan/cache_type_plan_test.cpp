// Types of the key/value cache: bytes, times, plans and their files.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "model/base/error.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/work.hpp"
#include "model/predict/cost_model.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::cache_type_plan_test {
namespace {

using model::CacheFormat;
using model::TaskKind;
using planner::Plan;

planner::Request request_of(const std::string& strategy, CacheFormat cache) {
  planner::Request request{
      .model =
          small_model({.layers = 4, .heads = 4, .kv_heads = 2, .head_dim = 32, .intermediate = 64}),
      .cluster = star_cluster(std::vector<DeviceSpec>(4)),
      .strategy = strategy,
      .partition = strategy == "sp" ? "auto" : "equal",
      .workload = {9, 4}};
  if (strategy == "local") request.partition = "auto";
  request.model.cache = cache;
  return request;
}

Plan planned(const std::string& strategy, CacheFormat cache) {
  auto made = planner::make_plan(request_of(strategy, cache));
  REQUIRE(std::holds_alternative<Plan>(made));
  return std::get<Plan>(std::move(made));
}

constexpr const char* kStrategies[] = {"tensor", "pipeline", "galaxy", "sp", "csps"};

model::Work attention_of(const Plan& plan, const model::Batch& batch) {
  const model::TaskGraph graph = planner::find_strategy(plan.strategy).lower(plan, batch);
  for (const model::Task& task : graph.tasks()) {
    if (task.kind == TaskKind::attend && !task.columns.empty())
      return model::work_of(plan.model, batch, task);
  }
  FAIL("a graph with attention");
  return {};
}

// A profile that was measured without an F16 cache.
model::DeviceProfile measured() {
  model::DeviceProfile profile =
      model::nominal_profile({.name = "d",
                              .flop_rate = model::FlopsPerSecond{1e11},
                              .memory_bandwidth = model::BytesPerSecond{1e10}});
  profile.source = "some machine";
  profile.half_attend.reset();
  profile.half_score.reset();
  return profile;
}

}  // namespace

TEST_CASE("planner/cache type: 2 e L K d 64 bytes a block, and no other category changes") {
  model::Transformer t =
      small_model({.layers = 4, .heads = 4, .kv_heads = 2, .head_dim = 32, .intermediate = 64});
  const model::Share share{.layers = {0, 3}, .heads = {0, 2}, .columns = {0, 64}};
  CHECK(model::cache_block_bytes(t, share) == 2 * 4 * 3 * 1 * 32 * 64);
  t.cache = CacheFormat::f16;
  CHECK(model::cache_block_bytes(t, share) == 2 * 2 * 3 * 1 * 32 * 64);
  for (const char* const strategy : kStrategies) {
    CAPTURE(strategy);
    const Plan plain = planned(strategy, CacheFormat::f32);
    const Plan half = planned(strategy, CacheFormat::f16);
    for (std::size_t d = 0; d < plain.devices.size(); ++d) {
      model::MemoryUse expected = plain.devices[d].memory;
      expected.kv_cache /= 2.0;
      CHECK(expected == half.devices[d].memory);
      CHECK(plain.devices[d].share == half.devices[d].share);
    }
  }
}

TEST_CASE("planner/cache type: attention reads half the bytes for as many flops") {
  for (const char* const strategy : kStrategies) {
    CAPTURE(strategy);
    for (const model::Batch& batch : {planner::prompt_batch({9, 4}), planner::decode_batch(9)}) {
      const model::Work plain = attention_of(planned(strategy, CacheFormat::f32), batch);
      const model::Work half = attention_of(planned(strategy, CacheFormat::f16), batch);
      CHECK(half.flops == plain.flops);
      CHECK(half.intensity == plain.intensity);
      CHECK(2.0 * half.streamed_bytes == plain.streamed_bytes);
      CHECK(plain.bytes_read - half.bytes_read == half.streamed_bytes);
      CHECK(half.bytes_written == plain.bytes_written);
      // flops = streamed * intensity * 2 / e
      CHECK(half.flops == doctest::Approx(half.streamed_bytes * half.intensity).epsilon(1e-12));
      CHECK(plain.flops ==
            doctest::Approx(plain.streamed_bytes * plain.intensity / 2.0).epsilon(1e-12));
    }
  }
}

TEST_CASE("planner/cache type: by the roofline half the time where memory bounds, else the same") {
  model::Transformer t =
      small_model({.layers = 4, .heads = 4, .kv_heads = 2, .head_dim = 32, .intermediate = 64});
  const model::Device device{.name = "d",
                             .flop_rate = model::FlopsPerSecond{1e11},
                             .memory_bandwidth = model::BytesPerSecond{1e10}};
  const auto seconds = [&](CacheFormat cache, std::int32_t rows) {
    t.cache = cache;
    const model::CostModel costs(t, {model::nominal_profile(device)});
    model::Task task{.kind = TaskKind::attend, .rows = {0, rows}, .columns = {0, 4}};
    return costs.compute_time({{{.sequence = 0, .past = 512, .rows = rows}}}, task).value();
  };
  // Of one row: keys and values of 2 heads of 32 at 513 positions.
  CHECK(seconds(CacheFormat::f32, 1) == doctest::Approx(4.0 * 2 * 2 * 32 * 513 / 1e10));
  CHECK(seconds(CacheFormat::f16, 1) == doctest::Approx(2.0 * 2 * 2 * 32 * 513 / 1e10));
  CHECK(seconds(CacheFormat::f16, 256) == doctest::Approx(seconds(CacheFormat::f32, 256)));
}

TEST_CASE("planner/cache type: a plan's file says f16, nothing of f32, and refuses others") {
  const Plan plain = planned("tensor", CacheFormat::f32);
  nlohmann::ordered_json file = nlohmann::ordered_json::parse(planner::to_json(plain));
  CHECK(!file["model"].contains("cache"));
  CHECK(!file["devices"][0]["profile"].contains("caches"));
  const Plan half = planned("tensor", CacheFormat::f16);
  CHECK(planner::parse_plan_json(planner::to_json(half), "plan.json") == half);
  file = nlohmann::ordered_json::parse(planner::to_json(half));
  CHECK(file["model"]["cache"] == "f16");
  CHECK(file["devices"][0]["profile"]["caches"]["f16"].contains("attend"));
  const auto refused = [&](const nlohmann::ordered_json& cache, const char* reason) {
    file["model"]["cache"] = cache;
    CHECK_THROWS_WITH_AS((void)planner::parse_plan_json(file.dump(), "plan.json"),
                         doctest::Contains(reason), Error);
  };
  refused("bf16", "f32, f16");
  refused("f32", "no such key");
  refused(16, "model.cache");
}

TEST_CASE("planner/cache type: a profile without such a rate is refused, not guessed from f32") {
  planner::Request request = request_of("tensor", CacheFormat::f16);
  request.profiles.assign(4, measured());
  request.partition = "auto";
  CHECK_THROWS_WITH_AS((void)planner::make_plan(request),
                       doctest::Contains("'tandem profile --cache-type f16'"), Error);
  request.model.cache = CacheFormat::f32;
  CHECK_NOTHROW((void)planner::make_plan(request));
  SUBCASE("nominal ones know it; slowed ones are slower; files keep it") {
    const model::DeviceProfile nominal =
        model::nominal_profile({.name = "d",
                                .flop_rate = model::FlopsPerSecond{1e11},
                                .memory_bandwidth = model::BytesPerSecond{1e10}});
    REQUIRE(nominal.half_attend.has_value());
    CHECK(model::slowed(nominal, 3.0).half_attend->points[0].seconds_per_byte ==
          doctest::Approx(3e-10));
    CHECK(model::parse_profile_json(model::to_json(nominal), "p.json") == nominal);
    CHECK(model::parse_profile_json(model::to_json(measured()), "p.json") == measured());
  }
}

TEST_CASE("planner/cache type: shards, and what names them, do not know of it") {
  model::Transformer t =
      small_model({.layers = 4, .heads = 4, .kv_heads = 2, .head_dim = 32, .intermediate = 64});
  const std::string config = model::to_config_json(t);
  model::Transformer half = t;
  half.cache = CacheFormat::f16;
  CHECK(model::to_config_json(half) == config);
  CHECK(model::differences(t, half).empty());
  CHECK(t != half);
}

}  // namespace tandem::test::cache_type_plan_test
