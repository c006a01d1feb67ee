// Types of messages and of the cache within a bound on what they lose.

#include "planner/search/loss_budget.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "advice/choice.hpp"
#include "model/base/error.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/search/affordable_types.hpp"
#include "planner/search/default_types.hpp"
#include "planner/search/format_loss.hpp"
#include "planner/search/search.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::loss_budget_test {
namespace {

using model::CacheFormat;
using model::WireFormat;
using planner::FormatPrices;
using planner::Plan;
using planner::Request;

constexpr double kNone = std::numeric_limits<double>::infinity();

// Losses are a few of these: exact sums, and as small as real ones.
constexpr double kUnit = 1.0 / (1 << 20);

FormatPrices prices() {
  return {.messages = {{WireFormat::f16, 0.25 * kUnit},
                       {WireFormat::bf16, 1.0 * kUnit},
                       {WireFormat::q8_0, 2.0 * kUnit}},
          .cache = {{CacheFormat::f16, 4.0 * kUnit}, {CacheFormat::q8_0, 8.0 * kUnit}}};
}

// Devices of different speeds and links. `slow_cache`: attention over a narrow cache takes longer,
// `slow_copies`: rounding costs more than it saves.
Request request_of(const std::string& strategy, unsigned seed, bool slow_cache, bool slow_copies) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> factor(0.5, 2.0);
  Request request{
      .model = small_model(
          {.layers = 4, .heads = 4, .kv_heads = 4, .head_dim = 32, .intermediate = 256}),
      .cluster = star_cluster(std::vector<DeviceSpec>(3)),
      .strategy = strategy,
      .workload = {24, 4},
      .open = {.wire = true, .cache = true},
      .budget = planner::LossBudget{.most = 0.0, .prices = prices()}};
  for (const model::Device& device : request.cluster.devices()) {
    model::Device changed = device;
    const double link = request.cluster.route(0, 1).bandwidth.value();
    changed.memory_bandwidth =
        model::BytesPerSecond{factor(random) * (slow_copies ? link / 50.0 : 1e10)};
    model::DeviceProfile& profile = request.profiles.emplace_back(model::nominal_profile(changed));
    for (model::CacheRates& cache : profile.caches) {
      for (model::RatePoint& point : cache.attend.points)
        point.seconds_per_byte *= slow_cache ? 30.0 : 1.0;
    }
  }
  return request;
}

double seconds_of(const Request& request, const Plan& plan) {
  return planner::predicted_time(plan, request.objective, request.evaluate);
}

Plan planned(const Request& request) {
  planner::Answer answer = planner::make_plan(planner::with_default_types(request));
  if (const auto* const no = std::get_if<planner::Infeasible>(&answer)) FAIL(no->reason);
  return std::get<Plan>(std::move(answer));
}

struct Pair {
  double loss = 0.0;
  double seconds = 0.0;
};

// Every pair of types by itself.
std::vector<Pair> all_pairs(Request request) {
  const FormatPrices known = prices();
  request.budget.reset();
  request.open = {};
  std::vector<Pair> pairs;
  for (const WireFormat wire : {WireFormat::f32, WireFormat::bf16, WireFormat::q8_0}) {
    if (request.strategy == "local" && wire != WireFormat::f32) continue;
    for (const CacheFormat cache : model::kCacheFormats) {
      request.wire = wire;
      request.model.cache = cache;
      pairs.push_back({.loss = *known.of(wire) + *known.of(cache),
                       .seconds = seconds_of(request, planned(request))});
    }
  }
  return pairs;
}

// The least time of those that lose at most `most`.
double fastest_of(const std::vector<Pair>& pairs, double most) {
  double best = kNone;
  for (const Pair& pair : pairs) {
    if (pair.loss <= most) best = std::min(best, pair.seconds);
  }
  return best;
}

nlohmann::json format_json() {
  using Json = nlohmann::json;
  const auto price = [](double loss) {
    return Json{{"loss", loss}, {"mean", -0.5 * loss}, {"strategy", "tensor"}};
  };
  return {{"schema", "tandem.format_loss/1"},
          {"unit", "bits per byte more than with messages and cache in f32"},
          {"model",
           {{"name", "small"}, {"config", Json::parse(model::to_config_json(small_model({})))}}},
          {"weights",
           {{{"file", "model.safetensors"}, {"bytes", 5}, {"tail_sha256", std::string(64, 'a')}}}},
          {"platform", "rooms"},
          {"devices", 4},
          {"strategies", {"tensor", "pipeline"}},
          {"messages", {{"bf16", price(1e-5)}, {"q8_0", price(2e-5)}}},
          {"cache", {{"f16", price(1e-7)}, {"q8_0", price(3e-5)}}},
          {"both",
           {{"messages", "q8_0"},
            {"cache", "q8_0"},
            {"loss", 4e-5},
            {"mean", 0.0},
            {"strategy", "tensor"}}},
          {"measured",
           {{"documents", 16},
            {"parts", 8},
            {"bytes", 1000},
            {"f32_bits_per_byte", 0.5},
            {"text_sha256", "0"}}}};
}

}  // namespace

TEST_CASE("planner/loss budget: the fastest of all types within the bound, by brute force") {
  unsigned seed = 0;
  for (const char* const strategy : {"local", "tensor", "pipeline", "galaxy", "sp", "csps"}) {
    for (const bool slow_cache : {false, true}) {
      for (const bool slow_copies : {false, true}) {
        CAPTURE(strategy);
        CAPTURE(slow_cache);
        CAPTURE(slow_copies);
        Request request = request_of(strategy, ++seed, slow_cache, slow_copies);
        const std::vector<Pair> pairs = all_pairs(request);
        double before = kNone;
        for (const double units : {0.0, 1.0, 2.5, 4.0, 5.0, 9.0, 10.0}) {
          const double most = units * kUnit;
          CAPTURE(units);
          request.budget->most = most;
          const Plan plan = planned(request);
          const double seconds = seconds_of(request, plan);
          CHECK(seconds == doctest::Approx(fastest_of(pairs, most)).epsilon(1e-7));
          CHECK(planner::losses_of(plan, prices()).total() <= most);
          CHECK(seconds <= before);  // a larger bound never gives a slower plan
          before = seconds;
          CHECK(plan.wire != WireFormat::f16);
        }
      }
    }
  }
}

TEST_CASE("planner/loss budget: a bound of 0 is the plan that f32 gives, whatever the weights") {
  for (const char* const strategy : {"tensor", "pipeline", "spread"}) {
    CAPTURE(strategy);
    Request request = request_of(strategy, 7, false, false);
    request.model.formats = model::WeightFormats(model::WeightFormat::q8_0);
    const Plan bounded = planned(request);
    request.budget.reset();
    request.open = {};
    CHECK(bounded == planned(request));
  }
}

TEST_CASE("planner/loss budget: types that are given count, and are refused beyond the bound") {
  Request request = request_of("tensor", 3, false, false);
  request.open.wire = false;
  request.wire = WireFormat::q8_0;
  SUBCASE("2 of 6: 4 are left for the cache, which q8_0 exceeds") {
    request.budget->most = 6.0 * kUnit;
    const Plan plan = planned(request);
    CHECK(plan.wire == WireFormat::q8_0);
    CHECK(planner::affordable_caches(request) == std::vector{CacheFormat::f16, CacheFormat::f32});
    CHECK(planner::losses_of(plan, prices()).total() <= 6.0 * kUnit);
  }
  SUBCASE("2 of 1") {
    request.budget->most = 1.0 * kUnit;
    CHECK_THROWS_WITH_AS(planned(request), doctest::Contains("messages in q8_0: a loss of "),
                         Error);
  }
  SUBCASE("not measured") {
    request.budget->most = 6.0;
    request.budget->prices.messages.clear();
    CHECK_THROWS_WITH_AS(planned(request), doctest::Contains("format_loss.py"), Error);
  }
  SUBCASE("a profile without the rate of a cache, and heads that fill no blocks") {
    request.budget->most = 64.0;
    CHECK(planner::affordable_caches(request).front() == CacheFormat::q8_0);
    request.model.head_dim = 48;
    CHECK(planner::affordable_caches(request).front() == CacheFormat::f16);
    request.profiles[1].caches.clear();
    CHECK(planner::affordable_caches(request) == std::vector{CacheFormat::f32});
  }
  SUBCASE("a device alone sends nothing") {
    request.budget->most = 0.0;
    request.strategy = "local";
    CHECK(planner::losses_of(planned(request), prices()).total() == 0.0);
  }
}

TEST_CASE("planner/loss budget: auto is no slower than the fastest strategy within the bound") {
  for (const double most : {0.0, 3.0 * kUnit, 10.0 * kUnit}) {
    CAPTURE(most);
    study::Question question{.request = request_of("auto", 5, false, false)};
    question.request.budget->most = most;
    const study::Choice choice = study::choose(question);
    REQUIRE_FALSE(choice.contenders.empty());
    const Plan& best = choice.contenders.front().plan;
    CHECK(planner::losses_of(best, prices()).total() <= most);
    for (const char* const strategy : {"local", "tensor", "pipeline"}) {
      Request request = question.request;
      request.strategy = strategy;
      CHECK(choice.contenders.front().seconds <=
            seconds_of(request, planned(request)) * (1.0 + 1e-3));
    }
  }
}

TEST_CASE("planner/format loss: what the file says, of which model, and what was not measured") {
  const auto read = [](const nlohmann::json& json) {
    return planner::parse_format_loss(json.dump(), "loss.json");
  };
  const planner::FormatLoss loss = read(format_json());
  CHECK(loss.prices.of(WireFormat::f32) == 0.0);
  CHECK(loss.prices.of(WireFormat::q8_0) == 2e-5);
  CHECK_FALSE(loss.prices.of(WireFormat::f16).has_value());
  CHECK(loss.prices.of(CacheFormat::f16) == 1e-7);
  loss.check_model(small_model({}));
  CHECK_THROWS_WITH_AS(loss.check_model(small_model({.layers = 9})),
                       doctest::Contains("measured of another model"), Error);
  const auto refused = [&](const char* path, const nlohmann::json& value, const char* expected) {
    nlohmann::json json = format_json();
    json[nlohmann::json::json_pointer(path)] = value;
    CHECK_THROWS_WITH_AS(read(json), doctest::Contains(expected), Error);
  };
  refused("/schema", "tandem.format_loss/2", "tandem.format_loss/1");
  refused("/messages/q8_0/loss", 0.0, "above 0");
  refused("/messages/q5_0", 0.0, "q5_0");
  refused("/unit", "bits", "bits per byte");
  refused("/strategies", nlohmann::json::array(), "at least one");
  Request request = request_of("galaxy", 1, false, false);
  request.budget->most = 2.0 * kUnit;
  Plan plan = planned(request);
  CHECK(loss.remarks(plan).size() == 1);
  plan.model.formats = model::WeightFormats(model::WeightFormat::q4_0);
  CHECK(loss.remarks(plan).size() == 2);
  plan.wire = WireFormat::f32;
  plan.model.cache = CacheFormat::f32;
  CHECK(loss.remarks(plan).empty());
}

TEST_CASE("planner/loss budget: a plan's file keeps what it loses, and its sum is checked") {
  const planner::PlanFile file{
      .plan = planned(request_of("tensor", 2, false, false)),
      .loss = planner::PlanLoss{.most = 0.5, .messages = 0.25, .cache = 0.125, .dropping = 0.0625}};
  const std::string text = planner::to_json(file);
  CHECK(planner::parse_plan_file(text, "plan.json") == file);
  nlohmann::json json = nlohmann::json::parse(text);
  CHECK(json["loss"]["total"] == 0.4375);
  json["loss"]["total"] = 0.4;
  CHECK_THROWS_WITH_AS(planner::parse_plan_file(json.dump(), "plan.json"),
                       doctest::Contains("the sum of"), Error);
  json["loss"]["total"] = 0.4375;
  json["loss"]["most"] = 0.4;
  CHECK_THROWS_WITH_AS(planner::parse_plan_file(json.dump(), "plan.json"),
                       doctest::Contains("at most the bound"), Error);
}

}  // namespace tandem::test::loss_budget_test
