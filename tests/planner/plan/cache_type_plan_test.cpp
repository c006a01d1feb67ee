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
// And the bytes of a number.
constexpr std::pair<CacheFormat, double> kNarrow[] = {{CacheFormat::f16, 2.0},
                                                      {CacheFormat::q8_0, 34.0 / 32.0}};

model::Work attention_of(const Plan& plan, const model::Batch& batch) {
  const model::TaskGraph graph = planner::find_strategy(plan.strategy).lower(plan, batch);
  for (const model::Task& task : graph.tasks()) {
    if (task.kind == TaskKind::attend && !task.columns.empty())
      return model::work_of(plan.model, batch, task);
  }
  FAIL("a graph with attention");
  return {};
}

// A profile that was measured over a cache in F32 alone.
model::DeviceProfile measured() {
  model::DeviceProfile profile =
      model::nominal_profile({.name = "d",
                              .flop_rate = model::FlopsPerSecond{1e11},
                              .memory_bandwidth = model::BytesPerSecond{1e10}});
  profile.source = "some machine";
  profile.caches.clear();
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
  t.cache = CacheFormat::q8_0;
  CHECK(model::cache_block_bytes(t, share) == 2 * 34 * 3 * 1 * 64);
  for (const char* const strategy : kStrategies) {
    for (const auto& [format, bytes] : kNarrow) {
      CAPTURE(strategy);
      CAPTURE(to_string(format));
      const Plan plain = planned(strategy, CacheFormat::f32);
      const Plan narrow = planned(strategy, format);
      for (std::size_t d = 0; d < plain.devices.size(); ++d) {
        model::MemoryUse expected = plain.devices[d].memory;
        expected.kv_cache *= bytes / 4.0;
        CHECK(expected == narrow.devices[d].memory);
        CHECK(plain.devices[d].share == narrow.devices[d].share);
      }
    }
  }
}

TEST_CASE("planner/cache type: attention reads fewer bytes for as many flops") {
  for (const char* const strategy : kStrategies) {
    for (const auto& [format, bytes] : kNarrow) {
      CAPTURE(strategy);
      CAPTURE(to_string(format));
      for (const model::Batch& batch : {planner::prompt_batch({9, 4}), planner::decode_batch(9)}) {
        const model::Work plain = attention_of(planned(strategy, CacheFormat::f32), batch);
        const model::Work narrow = attention_of(planned(strategy, format), batch);
        CHECK(narrow.flops == plain.flops);
        CHECK(narrow.intensity == plain.intensity);
        CHECK(4.0 * narrow.streamed_bytes == bytes * plain.streamed_bytes);
        CHECK(plain.bytes_read - narrow.bytes_read == plain.streamed_bytes - narrow.streamed_bytes);
        CHECK(narrow.bytes_written == plain.bytes_written);
        // flops = streamed * intensity * 2 / e
        CHECK(
            narrow.flops ==
            doctest::Approx(narrow.streamed_bytes * narrow.intensity * 2.0 / bytes).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("planner/cache type: by the roofline less time where memory bounds, else the same") {
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
  CHECK(seconds(CacheFormat::q8_0, 1) == doctest::Approx(34.0 / 32.0 * 2 * 2 * 32 * 513 / 1e10));
  CHECK(seconds(CacheFormat::f16, 256) == doctest::Approx(seconds(CacheFormat::f32, 256)));
  CHECK(seconds(CacheFormat::q8_0, 256) == doctest::Approx(seconds(CacheFormat::f32, 256)));
}

TEST_CASE("planner/cache type: a plan's file has its type, nothing of f32, and refuses others") {
  const Plan plain = planned("tensor", CacheFormat::f32);
  nlohmann::ordered_json file = nlohmann::ordered_json::parse(planner::to_json(plain));
  CHECK(!file["model"].contains("cache"));
  CHECK(!file["devices"][0]["profile"].contains("caches"));
  for (const auto& [format, bytes] : kNarrow) {
    const Plan narrow = planned("tensor", format);
    CHECK(planner::parse_plan_json(planner::to_json(narrow), "plan.json") == narrow);
    file = nlohmann::ordered_json::parse(planner::to_json(narrow));
    CHECK(file["model"]["cache"] == to_string(format));
    const nlohmann::ordered_json& caches = file["devices"][0]["profile"]["caches"];
    CHECK(caches.size() == 1);
    CHECK(caches[std::string(to_string(format))].contains("attend"));
  }
  const auto refused = [&](const nlohmann::ordered_json& cache, const char* reason) {
    file["model"]["cache"] = cache;
    CHECK_THROWS_WITH_AS((void)planner::parse_plan_json(file.dump(), "plan.json"),
                         doctest::Contains(reason), Error);
  };
  refused("bf16", "f32, f16, q8_0");
  refused("f32", "no such key");
  refused(16, "model.cache");
}

TEST_CASE("planner/cache type: a profile without such a rate is refused, not guessed from f32") {
  planner::Request request = request_of("tensor", CacheFormat::f16);
  request.profiles.assign(4, measured());
  request.partition = "auto";
  for (const auto& [format, bytes] : kNarrow) {
    request.model.cache = format;
    const std::string remedy = "'tandem profile --cache-type " + std::string(to_string(format));
    CHECK_THROWS_WITH_AS((void)planner::make_plan(request), doctest::Contains(remedy.c_str()),
                         Error);
  }
  request.model.cache = CacheFormat::f32;
  CHECK_NOTHROW((void)planner::make_plan(request));
  SUBCASE("nominal ones know it; slowed ones are slower; files keep it") {
    const model::DeviceProfile nominal =
        model::nominal_profile({.name = "d",
                                .flop_rate = model::FlopsPerSecond{1e11},
                                .memory_bandwidth = model::BytesPerSecond{1e10}});
    REQUIRE(nominal.caches.size() == 2);
    for (const model::CacheRates& cache : model::slowed(nominal, 3.0).caches)
      CHECK(cache.attend.points[0].seconds_per_byte == doctest::Approx(3e-10));
    CHECK(model::parse_profile_json(model::to_json(nominal), "p.json") == nominal);
    CHECK(model::parse_profile_json(model::to_json(measured()), "p.json") == measured());
  }
}

TEST_CASE("planner/cache type: heads that are not whole blocks are refused with the remedy") {
  planner::Request request = request_of("tensor", CacheFormat::q8_0);
  request.model.head_dim = 40;
  CHECK_THROWS_WITH_AS(
      (void)planner::make_plan(request),
      doctest::Contains("head_dim is 40, expected a multiple of 32 for a cache in "
                        "q8_0, whose blocks are that long; use '--cache-type f16'"),
      Error);
  request.model.cache = CacheFormat::f16;
  CHECK_NOTHROW((void)planner::make_plan(request));
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
