// What changes of a plan gain for which nothing must be bought.

#include "advice/free/free_changes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "advice/free/fixed_plan.hpp"
#include "advice/free/other_devices.hpp"
#include "advice/whatif.hpp"
#include "model/base/quantity_text.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/stages.hpp"
#include "sim/platform/platform.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/collective_fixture.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::study::free_changes_test {
namespace {

model::Cluster home4() {
  return sim::read_platform(tandem::testing::in_sources("scenarios/platforms/home4.xml").string())
      .cluster;
}

planner::Request request_for(model::Cluster cluster, const std::string& strategy) {
  return {.model = model::test::named_model("tinyllama-1.1b"),
          .cluster = std::move(cluster),
          .strategy = strategy,
          .workload = {.prompt_tokens = 16, .new_tokens = 8}};
}

planner::Plan planned(const planner::Request& request) {
  auto answer = planner::make_plan(request);
  REQUIRE(std::holds_alternative<planner::Plan>(answer));
  return std::get<planner::Plan>(std::move(answer));
}

double request_s(const planner::Plan& plan) {
  return request_clock(EvaluatorKind::analytic)(plan, nullptr);
}

FreeChanges asked(const planner::Plan& plan, const planner::SearchEffort::Limits& limits = {}) {
  return free_changes(
      {.ask = fixed_plan(plan, nullptr, planning_evaluator(EvaluatorKind::analytic)),
       .plan = &plan,
       .planned_s = request_s(plan),
       .anew = true,
       .clock = request_clock(EvaluatorKind::analytic),
       .limits = limits});
}

const FreeChange& find(const FreeChanges& changes, const std::string& what) {
  CAPTURE(what);
  const auto found = std::ranges::find(changes.tried, what, &FreeChange::what);
  REQUIRE(found != changes.tried.end());
  return *found;
}

std::string value_of(const FreeChange& change, const std::string& flag) {
  const auto found = std::ranges::find(change.flags, flag, &PlanFlag::name);
  return found == change.flags.end() ? "" : found->value;
}

void check_takes(const FreeChanges& changes, const std::string& what,
                 const planner::Request& changed) {
  CAPTURE(what);
  const FreeChange& change = find(changes, what);
  REQUIRE(change.seconds.has_value());
  CHECK(std::abs(*change.seconds / request_s(planned(changed)) - 1.0) < 1e-9);
}

}  // namespace

TEST_CASE("study/free changes: each takes what a plan that is asked for it takes") {
  const planner::Request request = request_for(home4(), "tensor");
  const planner::Plan plan = planned(request);
  const FreeChanges changes = asked(plan);
  CHECK(changes.not_tried.empty());
  planner::Request changed = request;
  changed.cluster = without_device(request.cluster, "board");
  check_takes(changes, "without 'board'", changed);
  CHECK(value_of(find(changes, "without 'board'"), "devices") == "desktop,laptop,mini-pc");
  changed = request;
  changed.master = "laptop";
  check_takes(changes, "the prompt at 'laptop'", changed);
  CHECK(find(changes, "the prompt at 'laptop'").price == Price::privacy);
  for (const model::WireFormat wire : {model::WireFormat::bf16, model::WireFormat::q8_0}) {
    changed = request;
    changed.wire = wire;
    check_takes(changes, "messages in " + std::string(to_string(wire)), changed);
  }
  changed = request;
  changed.head = planner::HeadPlacement::split;
  check_takes(changes, "the LM head split", changed);
  CHECK(find(changes, "the LM head split").price == Price::privacy);
  for (const model::Device& device : request.cluster.devices()) {
    changed = request;
    changed.strategy = "local";
    for (const model::Device& other : request.cluster.devices()) {
      if (other.name != device.name) changed.cluster = without_device(changed.cluster, other.name);
    }
    const std::string what = "'" + device.name + "' alone";
    if (std::holds_alternative<planner::Infeasible>(planner::make_plan(changed)))
      CHECK(!find(changes, what).obstacle.empty());
    else
      check_takes(changes, what, changed);
  }
  const auto possible = [](const FreeChange& change) { return change.seconds.has_value(); };
  CHECK(std::ranges::is_partitioned(changes.tried, possible));
  for (std::size_t i = 1; i < changes.tried.size() && possible(changes.tried[i]); ++i)
    CHECK(*changes.tried[i - 1].seconds <= *changes.tried[i].seconds);
  CHECK(changes.unchanged_s <= changes.planned_s);
  for (const FreeChange* const change : changes.worth())
    CHECK(*change->seconds <= changes.unchanged_s * (1.0 - kWorthSaying));
}

TEST_CASE("study/free changes: the head is split by the best strategy that can") {
  const auto small = [](const char* strategy) {
    planner::Request request = request_for(home4(), strategy);
    request.model = request.model.first_layers(2);
    return request;
  };
  const planner::Plan plan = planned(small("spread"));
  const auto evaluator = planning_evaluator(EvaluatorKind::analytic);
  FreeQuestion question{.ask = fixed_plan(plan, nullptr, evaluator),
                        .plan = &plan,
                        .planned_s = request_s(plan),
                        .clock = request_clock(EvaluatorKind::analytic)};
  CHECK(std::ranges::count(free_changes(question).tried, "head", &FreeChange::kind) == 0);
  for (const char* const other : {"sp", "galaxy", "tensor"})
    question.others.push_back(fixed_plan(planned(small(other)), nullptr, evaluator));
  const FreeChanges changes = free_changes(question);
  CHECK(std::ranges::count(changes.tried, "head", &FreeChange::kind) == 1);
  planner::Request split = small("galaxy");
  split.head = planner::HeadPlacement::split;
  const FreeChange& head = find(changes, "the LM head split with strategy galaxy");
  REQUIRE(head.seconds.has_value());
  // Axes that galaxy's own plan left to the search are fixed by it.
  CHECK(std::abs(*head.seconds / request_s(planned(split)) - 1.0) < 0.01);
  CHECK(value_of(head, "strategy") == "galaxy");
  CHECK(value_of(head, "decode-moves").empty());  // which fixes the plan of spread
  CHECK(head.price == Price::privacy);
}

TEST_CASE("study/free changes: levels are offered where rows are exchanged, with their price") {
  for (const char* const strategy : {"csps", "galaxy", "tensor"}) {
    CAPTURE(strategy);
    planner::Request request = request_for(home4(), strategy);
    request.model = request.model.first_layers(2);
    const FreeChanges changes = asked(planned(request));
    const auto levels = std::ranges::find(changes.tried, "levels", &FreeChange::kind);
    if (request.strategy == "tensor") {
      CHECK(levels == changes.tried.end());
      continue;
    }
    REQUIRE(levels != changes.tried.end());
    CHECK(levels->price == Price::generality);
    CHECK(value_of(*levels, "levels") == "2");
    REQUIRE(levels->seconds.has_value());
    planner::Request changed = request;
    changed.sparse = planner::SparseRequest{.levels = 2};
    changed.open_axes.moves = true;
    CHECK(std::abs(*levels->seconds / request_s(planned(changed)) - 1.0) < 1e-9);
  }
}

TEST_CASE("study/free changes: of equal devices one is left out, and tried as master") {
  const model::Cluster near = with_links(model::test::star(4), [](model::Link& link) {
    link.bandwidth = model::BytesPerSecond{1e8};
    if (link.name == "d3-link") link.latency = model::Seconds{1e-2};
  });
  const FreeChanges changes = asked(planned(request_for(near, "tensor")));
  const auto has = [&](const std::string& what) {
    return std::ranges::find(changes.tried, what, &FreeChange::what) != changes.tried.end();
  };
  CHECK(has("without 'd1'"));
  CHECK(!has("without 'd2'"));
  CHECK(has("without 'd3'"));
  CHECK(has("the prompt at 'd3'"));
  CHECK(!has("the prompt at 'd2'"));
}

TEST_CASE("study/free changes: where a network costs more than it brings, one device is enough") {
  const model::Cluster far =
      with_links(home4(), [](model::Link& link) { link.latency = model::Seconds{0.1}; });
  const FreeChanges changes = asked(planned(request_for(far, "tensor")));
  REQUIRE(!changes.worth().empty());
  CHECK(changes.worth().front()->what == "'desktop' alone");
  CHECK(changes.gain(*changes.worth().front()) > 0.5);
  // A slower device that would see the prompt is no choice beside one that costs nothing.
  for (const FreeChange* const change : changes.worth()) CHECK(change->what != "'laptop' alone");
}

TEST_CASE("study/free changes: what does not fit says what it lacks") {
  const FreeChanges changes = asked(
      planned(request_for(with_devices(home4(),
                                       [](model::Device& device) {
                                         device.memory = model::parse_bytes(
                                             device.name == "board" ? "1GiB" : "8GiB", "test");
                                       }),
                          "tensor")));
  const FreeChange& board = find(changes, "'board' alone");
  CHECK(!board.seconds);
  CHECK(board.obstacle.find("lacks") != std::string::npos);
}

TEST_CASE("study/free changes: a composition gives way where a change leaves nothing to compose") {
  planner::Request request =
      request_for(without_device(test::homes_of(2, 2, 1e-3, 5e-3, 1e7), "d3"), "tensor");
  request.model = test::small_model({.layers = 2, .heads = 4, .kv_heads = 4, .head_dim = 8});
  request.allreduce = "hierarchical:star+ring";
  const FreeChanges changes = asked(planned(request));
  for (const std::string gone : {"d1", "d2"}) {
    planner::Request changed = request;
    changed.cluster = without_device(request.cluster, gone);
    changed.allreduce = "auto";
    check_takes(changes, "without '" + gone + "'", changed);
    CHECK(value_of(find(changes, "without '" + gone + "'"), "allreduce") == "auto");
  }
}

// As the command line asks for it: the usual sums, of which a pipeline has none.
TEST_CASE("study/free changes: devices of every strategy can be left out") {
  for (const planner::Strategy& strategy : planner::strategies()) {
    planner::Request request = request_for(home4(), strategy.name);
    request.allreduce = strategy.allreduce;
    CAPTURE(strategy.name);
    const Ask few = on_devices({.request = request}, {true, true, false, false});
    CHECK(few.request.cluster.size() == 2);
    CHECK(few.request.allreduce == strategy.allreduce);
    if (strategy.allreduce.empty()) continue;
    request.allreduce = "star, ring";  // lists may have blanks
    CHECK(on_devices({.request = request}, {true, true, false, false}).request.allreduce ==
          "star, ring");
  }
}

TEST_CASE("study/free changes: a plan of groups keeps those of the devices that stay") {
  planner::Request request = request_for(home4(), "pipeline");
  request.groups = "desktop,mini-pc/laptop,board";
  request.allreduce = "ring";
  request.group_strategy = "galaxy";
  request.tiles = 1;
  const planner::Plan plan = planned(request);
  REQUIRE(planner::group_names(plan) == request.groups);
  const FreeChanges changes = asked(plan);
  CHECK(value_of(find(changes, "without 'board'"), "groups") == "desktop,mini-pc/laptop");
  CHECK(value_of(find(changes, "without 'board'"), "group-strategy") == "galaxy");
  const FreeChange& alone = find(changes, "'desktop' alone");
  CHECK(value_of(alone, "groups").empty());
  CHECK(std::ranges::find(alone.without, "groups") != alone.without.end());
}

TEST_CASE("study/free changes: keys and values in what the model's heads are whole blocks of") {
  planner::Request request = request_for(home4(), "tensor");
  const auto narrower = [&] {
    std::vector<std::string> names;
    const planner::Plan plan = planned(request);
    for (const FreeChange& change : asked(plan).tried) {
      if (change.kind == "cache") names.push_back(value_of(change, "cache-type"));
    }
    std::ranges::sort(names);
    return names;
  };
  CHECK(narrower() == std::vector<std::string>{"f16", "q8_0"});
  request.model.cache = model::CacheFormat::f16;
  CHECK(narrower() == std::vector<std::string>{"q8_0"});
  request.model = test::small_model({.layers = 2, .heads = 4, .kv_heads = 4, .head_dim = 8});
  request.model.cache = model::CacheFormat::f32;
  CHECK(narrower() == std::vector<std::string>{"f16"});
}

TEST_CASE("study/free changes: at its limit nothing is listed that was cut") {
  const planner::Plan plan = planned(request_for(home4(), "tensor"));
  const FreeChanges changes = asked(plan, {.evaluations = 1});
  CHECK(changes.tried.size() < asked(plan).tried.size());
  CHECK(!changes.not_tried.empty());
  const FreeChanges all = asked(plan);
  for (const FreeChange& change : changes.tried)
    CHECK(change.seconds == find(all, change.what).seconds);
}

TEST_CASE(
    "study/free changes: of a plan file with measured rates, no other cache need be measured") {
  planner::Request request = request_for(home4(), "tensor");
  for (const model::Device& device : request.cluster.devices()) {
    request.profiles.push_back(model::nominal_profile(device));
    request.profiles.back().source = "measured";
  }
  const planner::Plan plan = planned(request);
  const FreeChanges changes =
      free_changes({.ask = fixed_plan(plan, nullptr, planning_evaluator(EvaluatorKind::analytic)),
                    .plan = &plan,
                    .planned_s = request_s(plan),
                    .anew = true,
                    .of_file = true,
                    .clock = request_clock(EvaluatorKind::analytic)});
  std::size_t caches = 0;
  for (const FreeChange& change : changes.tried) {
    CAPTURE(change.what);
    CHECK(change.obstacle.find("measure ") == std::string::npos);
    if (change.kind != "cache") continue;
    ++caches;
    CHECK_FALSE(change.seconds.has_value());
    CHECK(change.obstacle.find("plan with '--cache-type ") != std::string::npos);
  }
  CHECK(caches > 0);
  // Nominal rates are known of every cache.
  request.profiles.clear();
  const planner::Plan nominal = planned(request);
  for (const FreeChange& change : asked(nominal).tried) {
    CAPTURE(change.what);
    CHECK(change.obstacle.find("rates") == std::string::npos);
  }
}

}  // namespace tandem::study::free_changes_test
