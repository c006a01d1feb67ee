// The longest context, the fewest devices and the first option that fit, against all placements.

#include "advice/fit.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "advice/least_bytes.hpp"
#include "advice/prompt_chunks.hpp"
#include "model/base/error.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "planner/search/device_choice.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/support/random_clusters.hpp"

namespace tandem::study::fit_test {
namespace {

using planner::Plan;
using planner::Request;

// 6 heads on 3 key/value heads; its context is longer than its prompts' memory.
model::Transformer small_model() {
  model::Transformer t = model::test::small_llama();
  t.max_context = 400;
  return t;
}

Request request_for(const model::Cluster& cluster) {
  Request request{.model = small_model(),
                  .cluster = cluster,
                  .workload = {.prompt_tokens = 24, .new_tokens = 8}};
  request.window.blocks = 0;
  return request;
}

bool has_plan(const Request& request) {
  try {
    return std::holds_alternative<Plan>(planner::make_plan(request));
  } catch (const Error&) {
    return false;
  }
}

// Whether any strategy has a plan for all devices of `request`, with any master and sums.
bool all_devices_fit(Request request) {
  for (const model::Device& master : request.cluster.devices()) {
    request.master = master.name;
    for (const planner::Strategy& strategy : planner::strategies()) {
      if (strategy.sharding.is_local() != (request.cluster.size() == 1)) continue;
      request.strategy = strategy.name;
      for (const char* const sums : {"", "auto"}) {
        request.allreduce.reset();
        if (*sums != '\0' && !strategy.sharding.has_collective()) continue;
        if (*sums != '\0') request.allreduce = sums;
        request.gather_weights = false;
        if (has_plan(request)) return true;
        request.gather_weights = strategy.sharding.gather_weights;
        if (request.gather_weights && has_plan(request)) return true;
      }
    }
  }
  return false;
}

// The fewest devices for which some subset has a plan; 0: none.
std::size_t fewest_of_all(const Request& question) {
  const auto devices = question.cluster.devices();
  std::size_t fewest = 0;
  for (unsigned set = 1; set < 1U << devices.size(); ++set) {
    Request request = question;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if ((set >> d & 1U) == 0) request.cluster = without_device(request.cluster, devices[d].name);
    }
    const auto count = request.cluster.devices().size();
    if ((fewest == 0 || count < fewest) && all_devices_fit(std::move(request))) fewest = count;
  }
  return fewest;
}

planner::Workload lengths(std::int64_t context) {
  return {.prompt_tokens = context - 8, .new_tokens = 8};
}

model::Cluster random_cluster(test::RandomClusters& random, int devices) {
  // Whose devices reach one another without a third: subsets are clusters, too.
  while (true) {
    model::Cluster cluster = random.cluster(devices, 2e4, 1.5e5);
    if (!cluster.routers().empty()) return cluster;
  }
}

}  // namespace

TEST_CASE("advice/fit: the longest context fits by some placement, and one token more by none") {
  test::RandomClusters random(7);
  int limited = 0;
  for (int i = 0; i < 12; ++i) {
    CAPTURE(i);
    const model::Cluster cluster = random_cluster(random, 3);
    Request request = request_for(cluster);
    const LongestContext found = longest_context({.request = request}, 9, 400, lengths);
    CHECK(found.effort.complete);
    CHECK(found.effort.all_subsets);
    const auto fits = [&](std::int64_t context) {
      request.workload = lengths(context);
      return fewest_of_all(request) > 0;
    };
    if (found.tokens == 0) {
      CHECK_FALSE(found.at.plan);
      CHECK_FALSE(fits(9));
      continue;
    }
    CAPTURE(found.tokens);
    REQUIRE(found.at.plan);
    CHECK(found.at.plan->workload == lengths(found.tokens));
    found.at.plan->validate();
    for (std::size_t d = 0; d < found.at.plan->devices.size(); ++d)
      CHECK(found.at.plan->devices[d].memory.total() <=
            found.at.plan->cluster.devices()[d].memory.value());
    CHECK(found.beyond.empty() == (found.tokens == 400));
    if (found.tokens == 400) continue;
    ++limited;
    CHECK_FALSE(fits(found.tokens + 1));
  }
  CHECK(limited >= 4);
}

TEST_CASE("advice/fit: within a bound on losses, what fits is what fits with the narrowest types") {
  using model::CacheFormat;
  using model::WireFormat;
  // What is spent on messages is missing for the cache, which counts more.
  const planner::FormatPrices prices{.messages = {{WireFormat::bf16, 1.0}, {WireFormat::q8_0, 1.5}},
                                     .cache = {{CacheFormat::f16, 1.0}}};
  struct Bound {
    double most;
    WireFormat wire;
    CacheFormat cache;
  };
  test::RandomClusters random(7);
  int grown = 0;
  for (int i = 0; i < 6; ++i) {
    CAPTURE(i);
    Request request = request_for(random_cluster(random, 2));
    request.strategy = i % 2 == 0 ? "tensor" : "pipeline";
    const auto longest = [](const Request& one) {
      return longest_context({.request = one, .any_strategy = false}, 9, 400, lengths);
    };
    std::int64_t before = 0;
    for (const Bound& bound : {Bound{0.0, WireFormat::f32, CacheFormat::f32},
                               Bound{1.0, WireFormat::f32, CacheFormat::f16},
                               Bound{1.5, WireFormat::f32, CacheFormat::f16},
                               Bound{2.5, WireFormat::q8_0, CacheFormat::f16}}) {
      CAPTURE(bound.most);
      Request bounded = request;
      bounded.open = {.wire = true, .cache = true};
      bounded.budget = planner::LossBudget{.most = bound.most, .prices = prices};
      Request given = request;
      given.wire = bound.wire;
      given.model.cache = bound.cache;
      const LongestContext found = longest(bounded);
      CHECK(found.tokens == longest(given).tokens);
      CHECK(found.tokens >= before);
      if (found.tokens > before && before > 0) ++grown;
      before = found.tokens;
    }
  }
  CHECK(grown > 0);
}

TEST_CASE("advice/fit: with the best reading, the longest context is what it plans, and no more") {
  test::RandomClusters random(7);
  int limited = 0;
  for (int i = 0; i < 12; ++i) {
    CAPTURE(i);
    Request request = request_for(random_cluster(random, 2));
    request.strategy = i % 2 == 0 ? "tensor" : "pipeline";
    const FitQuestion whole{.request = request, .any_strategy = false};
    FitQuestion question = whole;
    question.reading = {.best = true};
    const LongestContext found = longest_context(question, 9, 400, lengths);
    CHECK(found.tokens >= longest_context(whole, 9, 400, lengths).tokens);
    // Whole, or in chunks of 32 tokens, or as the shortest context can.
    const auto fits = [&](std::int64_t context) {
      request.workload = lengths(context);
      const auto has_plan = [&](const PromptReading& reading) {
        return std::holds_alternative<PromptPlan>(plan_prompt(request, reading));
      };
      return has_plan({}) || has_plan({.rows = 32}) || (context == 9 && has_plan({.best = true}));
    };
    if (found.tokens > 0) {
      CAPTURE(found.tokens);
      REQUIRE(found.at.plan);
      CHECK(fits(found.tokens));
    }
    if (found.tokens == 400) continue;
    ++limited;
    const std::string& why = found.tokens == 0 ? found.at.reason : found.beyond;
    CHECK_FALSE(why.empty());
    const std::int64_t next = found.tokens == 0 ? 9 : found.tokens + 1;
    CHECK_FALSE(fits(next));
  }
  CHECK(limited >= 2);
}

TEST_CASE("advice/fit: a prompt that does not fit whole is in the longest context in chunks") {
  test::RandomClusters random(11);
  for (const std::string strategy : {"local", "pipeline", "tensor", "galaxy"}) {
    CAPTURE(strategy);
    Request request = request_for(random.cluster(strategy == "local" ? 1 : 2, 1e9, 1e9));
    request.model.max_context = 4000;
    request.strategy = strategy;
    if (strategy == "galaxy")
      request.tiles = 1;  // buffers of more are larger than what chunks save
    request.workload = lengths(1500);
    const auto made = planner::make_plan(request);
    REQUIRE(std::holds_alternative<Plan>(made));
    double most = 0.0;
    for (const planner::DevicePlan& device : std::get<Plan>(made).devices)
      most = std::max(most, device.memory.total());
    request.memory_limit = model::Bytes{most};
    const auto longest = [&](const PromptReading& reading) {
      return longest_context({.request = request, .any_strategy = false, .reading = reading}, 9,
                             4000, lengths);
    };
    const LongestContext whole = longest({});
    const LongestContext chunks = longest({.best = true});
    CHECK(whole.at.chunk == 0);
    CHECK(whole.tokens >= 1500);
    CHECK(chunks.at.chunk > 0);
    CHECK(chunks.tokens > whole.tokens + 200);
    const auto fits = [&](std::int64_t context) {
      request.workload = lengths(context);
      return std::holds_alternative<PromptPlan>(plan_prompt(request, {.best = true}));
    };
    CHECK(fits(chunks.tokens));
    if (chunks.tokens < 4000) CHECK_FALSE(fits(chunks.tokens + 1));
  }
}

TEST_CASE("advice/fit: the fewest devices are those of all subsets, masters and strategies") {
  test::RandomClusters random(8);
  std::vector<int> counts(5);
  for (int i = 0; i < 16; ++i) {
    CAPTURE(i);
    const int devices = i % 4 == 3 ? 4 : 3;
    const Request request = request_for(random_cluster(random, devices));
    const FewestDevicesFit found = fewest_devices({.request = request});
    CHECK(found.devices == fewest_of_all(request));
    ++counts[found.devices];
    REQUIRE(found.at.plan.has_value() == (found.devices > 0));
    if (!found.at.plan) {
      CHECK_FALSE(found.at.reason.empty());
      continue;
    }
    CHECK(found.at.plan->cluster.devices().size() == found.devices);
    CHECK(found.fewer.empty() == (found.devices == 1));
  }
  // Each happens, or the test shows little.
  CHECK(counts[0] > 0);
  CHECK(counts[1] > 0);
  CHECK(counts[2] > 0);
}

TEST_CASE("advice/fit: a named master is in every plan, and a named strategy has all devices") {
  test::RandomClusters random(9);
  for (int i = 0; i < 8; ++i) {
    CAPTURE(i);
    Request request = request_for(random_cluster(random, 3));
    request.master = "d1";
    const FewestDevicesFit found = fewest_devices({.request = request});
    if (found.at.plan)
      CHECK(
          found.at.plan->cluster.devices()[static_cast<std::size_t>(found.at.plan->master)].name ==
          "d1");
    request.strategy = "tensor";
    request.allreduce = "star";
    const LongestContext longest =
        longest_context({.request = request, .any_strategy = false}, 9, 400, lengths);
    CHECK(has_plan([&] {
            Request at = request;
            at.workload = lengths(std::max<std::int64_t>(9, longest.tokens));
            return at;
          }()) == (longest.tokens > 0));
    if (longest.tokens == 0) continue;
    CHECK(longest.at.plan->strategy == "tensor");
    CHECK(longest.at.plan->cluster.size() == 3);
    if (longest.tokens == 400) continue;
    request.workload = lengths(longest.tokens + 1);
    CHECK_FALSE(has_plan(request));
  }
}

TEST_CASE("advice/fit: no plan needs less than the lower bound of memory") {
  test::RandomClusters random(10);
  int plans = 0;
  for (int i = 0; i < 6; ++i) {
    Request request = request_for(random.cluster(3, 1e6, 1e7));
    for (const planner::Strategy& strategy : planner::strategies()) {
      CAPTURE(strategy.name);
      request.strategy = strategy.name;
      const auto made = planner::make_plan(request);
      const auto* const plan = std::get_if<Plan>(&made);
      if (plan == nullptr) continue;
      ++plans;
      double needed = 0.0;
      for (const planner::DevicePlan& device : plan->devices) needed += device.memory.total();
      CHECK(least_bytes(request, {true, true, true}) <= needed);
    }
  }
  CHECK(plans > 20);
}

TEST_CASE("advice/fit: what cannot be resident has no plan without streaming") {
  test::RandomClusters random(12);
  int impossible = 0;
  int possible = 0;
  for (int i = 0; i < 12; ++i) {
    Request request = request_for(random.cluster(3, 1e6, 1e7));
    request.window.blocks = 0;
    for (const double memory : {2e4, 4e4, 8e4, 1e6}) {
      request.memory_limit = model::Bytes{memory * (1.0 + 0.1 * i)};
      for (const planner::Strategy& strategy : planner::strategies()) {
        CAPTURE(strategy.name);
        CAPTURE(request.memory_limit->value());
        request.strategy = strategy.name;
        const bool made = std::holds_alternative<Plan>(planner::make_plan(request));
        if (may_be_resident(request)) {
          possible += made ? 1 : 0;
          continue;
        }
        ++impossible;
        CHECK_FALSE(made);
      }
    }
  }
  CHECK(impossible > 20);
  CHECK(possible > 20);
}

TEST_CASE("advice/fit: the first option that fits, and why the one before does not") {
  const model::Cluster cluster = model::with_devices(
      model::test::star(2), [](model::Device& device) { device.memory = model::Bytes{4.5e4}; });
  Request request = request_for(cluster);
  std::vector<FitOption> options;
  for (const std::int32_t layers : {8, 4, 2, 1}) {
    model::Transformer t = small_model();
    t.layers = layers;
    options.push_back({.name = std::to_string(layers), .model = t, .workload = request.workload});
  }
  const FirstFit found = first_fit({.request = request}, options);
  REQUIRE(found.index);
  for (std::size_t i = 0; i < options.size(); ++i) {
    CAPTURE(i);
    request.model = options[i].model;
    const bool fits = fewest_of_all(request) > 0;
    if (i < *found.index) CHECK_FALSE(fits);
    if (i == *found.index) CHECK(fits);
  }
  CHECK(*found.index > 0);
  CHECK(found.before.starts_with(options[*found.index - 1].name + ": "));
  CHECK(found.at.plan->model == options[*found.index].model);
}

TEST_CASE("advice/fit: limits end with the best so far, and the same one each time") {
  test::RandomClusters random(12);
  const Request request = request_for(random.cluster(3, 1.2e5, 1.5e5));
  const auto limited = [&](std::int64_t evaluations) {
    planner::SearchEffort effort({.evaluations = evaluations});
    return longest_context({.request = request, .effort = &effort}, 9, 400, lengths);
  };
  const LongestContext to_the_end = longest_context({.request = request}, 9, 400, lengths);
  REQUIRE(to_the_end.effort.checks > 3);
  const LongestContext cut = limited(2);
  CHECK_FALSE(cut.effort.complete);
  CHECK(cut.tokens > 0);
  CHECK(cut.tokens <= to_the_end.tokens);
  CHECK(cut.tokens == limited(2).tokens);
  CHECK(limited(1'000'000).tokens == to_the_end.tokens);
  planner::SearchEffort interrupted;
  interrupted.interrupt();
  const LongestContext none =
      longest_context({.request = request, .effort = &interrupted}, 9, 400, lengths);
  CHECK(none.tokens == 0);
  CHECK_FALSE(none.effort.complete);
}

}  // namespace tandem::study::fit_test
