// Types of messages and of the cache that are not given, and the axes that choose others.

#include "planner/search/default_types.hpp"

#include <doctest/doctest.h>

#include <string>
#include <variant>

#include "planner/search/search.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::default_types_test {
namespace {

using model::CacheFormat;
using model::WeightFormat;
using model::WeightMatrix;
using model::WireFormat;
using planner::Plan;

planner::Request request_of(const std::string& strategy, WeightFormat format,
                            double memory_Bps = 1e10) {
  planner::Request request{
      .model = small_model(
          {.layers = 4, .heads = 4, .kv_heads = 2, .head_dim = 32, .intermediate = 256}),
      .cluster = star_cluster(std::vector<DeviceSpec>(4)),
      .strategy = strategy,
      .partition = strategy == "local" || strategy == "sp" ? "auto" : "equal",
      .workload = {40, 8},
      .open = {.wire = true, .cache = true}};
  request.model.formats = model::WeightFormats(format);
  for (const model::Device& device : request.cluster.devices()) {
    model::Device changed = device;
    changed.memory_bandwidth = model::BytesPerSecond{memory_Bps};
    request.profiles.push_back(model::nominal_profile(changed));
  }
  return request;
}

planner::Found found(const planner::Request& request) {
  planner::Found made = planner::find_plan(planner::with_default_types(request));
  if (const auto* const no = std::get_if<planner::Infeasible>(&made.answer)) FAIL(no->reason);
  return made;
}

const planner::Decision* decision_of(const planner::Found& found, std::string_view axis) {
  for (const planner::Decision& one : found.decisions) {
    if (one.axis == axis) return &one;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("planner/default types: narrow where every matrix has 16 bits or fewer") {
  for (const WeightFormat format : model::kAllFormats) {
    CAPTURE(to_string(format));
    const planner::Request request = planner::with_default_types(request_of("tensor", format));
    const bool narrow = format != WeightFormat::f32;
    CHECK(request.wire == (narrow ? WireFormat::bf16 : WireFormat::f32));
    CHECK(request.model.cache == (narrow ? CacheFormat::f16 : CacheFormat::f32));
  }
  planner::Request mixed = request_of("tensor", WeightFormat::q4_0);
  mixed.model.formats.set(WeightMatrix::value, 2, WeightFormat::f32);
  CHECK_FALSE(planner::has_narrow_weights(mixed.model));
  CHECK(planner::with_default_types(mixed).wire == WireFormat::f32);
  mixed.model.formats.set(WeightMatrix::value, 2, WeightFormat::bf16);
  CHECK(planner::has_narrow_weights(mixed.model));
}

TEST_CASE("planner/default types: what is given stays, and a device alone sends f32") {
  planner::Request request = request_of("tensor", WeightFormat::q8_0);
  request.open = {};
  CHECK(planner::with_default_types(request).wire == WireFormat::f32);
  CHECK(planner::with_default_types(request).model.cache == CacheFormat::f32);
  request.wire = WireFormat::q8_0;
  request.open.cache = true;
  CHECK(planner::with_default_types(request).wire == WireFormat::q8_0);
  CHECK(planner::with_default_types(request).model.cache == CacheFormat::f16);
  const planner::Request alone =
      planner::with_default_types(request_of("local", WeightFormat::q8_0));
  CHECK(alone.wire == WireFormat::f32);
  CHECK(alone.model.cache == CacheFormat::f16);
}

TEST_CASE("planner/default types: a profile without the cache's rate makes f32 its default") {
  planner::Request request = request_of("tensor", WeightFormat::q8_0);
  CHECK(planner::default_cache_remark(request, {}).empty());
  request.profiles[1].source = "some machine";
  request.profiles[1].caches.clear();
  CHECK(planner::with_default_types(request).model.cache == CacheFormat::f32);
  CHECK(planner::with_default_types(request).wire == WireFormat::bf16);
  CHECK(planner::default_cache_remark(request, {}).find("'some machine'") != std::string::npos);
  // Of weights that may be chosen, any.
  request.model.formats = {};
  CHECK(planner::default_cache_remark(request, {}).empty());
  for (const auto& formats :
       {std::vector<model::WeightFormats>{{}, model::WeightFormats(WeightFormat::q4_0)},
        std::vector<model::WeightFormats>{model::WeightFormats(WeightFormat::q4_0), {}}})
    CHECK(planner::default_cache_remark(request, formats).find("a cache in f16") !=
          std::string::npos);
  request.open.cache = false;
  CHECK(planner::default_cache_remark(request, {model::WeightFormats(WeightFormat::q4_0)}).empty());
}

TEST_CASE("planner/wire axis: f32 is tried only where links outrun copies, and never worse") {
  for (const char* const strategy : {"tensor", "pipeline", "galaxy", "sp", "csps"}) {
    CAPTURE(strategy);
    CAPTURE(strategy);
    const planner::Found slow = found(request_of(strategy, WeightFormat::q8_0));
    REQUIRE(slow.plan() != nullptr);
    CHECK(slow.plan()->wire == WireFormat::bf16);
    CHECK(decision_of(slow, "messages") == nullptr);
    // Copies at a hundredth of a link.
    planner::Request request = request_of(strategy, WeightFormat::q8_0);
    const double link = request.cluster.route(0, 1).bandwidth.value();
    request = request_of(strategy, WeightFormat::q8_0, link / 100.0);
    const planner::Found fast = found(request);
    REQUIRE(fast.plan() != nullptr);
    const planner::Decision* const decision = decision_of(fast, "messages");
    REQUIRE(decision != nullptr);
    CHECK(decision->alternatives.size() == 2);
    CHECK(fast.decisions.size() == slow.decisions.size() + 1);
    request.open.wire = false;
    request.model.cache = fast.plan()->model.cache;
    request.open.cache = false;
    double best = 1e300;
    for (const WireFormat wire : {WireFormat::f32, WireFormat::bf16}) {
      request.wire = wire;
      best = std::min(best, planner::predicted_time(*found(request).plan(), request.objective,
                                                    request.evaluate));
    }
    CHECK(planner::predicted_time(*fast.plan(), request.objective, request.evaluate) <=
          best * (1.0 + 1e-9));
  }
}

TEST_CASE("planner/cache axis: f32 is taken where attention over f16 is measurably slower") {
  for (const double factor : {1.0, 50.0}) {
    CAPTURE(factor);
    planner::Request request = request_of("tensor", WeightFormat::q8_0);
    for (model::DeviceProfile& profile : request.profiles) {
      for (model::CacheRates& cache : profile.caches) {
        for (model::RatePoint& point : cache.attend.points) point.seconds_per_byte *= factor;
      }
    }
    const planner::Found made = found(request);
    REQUIRE(made.plan() != nullptr);
    CHECK(made.plan()->model.cache == (factor > 1.0 ? CacheFormat::f32 : CacheFormat::f16));
    CHECK((decision_of(made, "cache") != nullptr) == (factor > 1.0));
    // The plan is one that the same request with the type given would have: memory included.
    request = planner::with_default_types(request);
    request.model.cache = made.plan()->model.cache;
    request.open = {};
    const planner::Found given = planner::find_plan(request);
    CHECK(*given.plan() == *made.plan());
  }
}

}  // namespace tandem::test::default_types_test
