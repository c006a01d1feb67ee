// The engine that walks axes, with axes and plans of its own: no planner.

#include "planner/search/engine.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <variant>

#include "planner/partition/search_effort.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::engine_test {
namespace {

using planner::Alternatives;
using planner::Axis;
using planner::Draft;
using planner::Found;
using planner::Infeasible;
using planner::Plan;

// Seconds of a plan: those of its tiles and its candidates, which stand for two axes.
double seconds_of(const Plan& plan) {
  constexpr std::array kSeconds{9.0, 5.0, 7.0, 3.0};
  return kSeconds[static_cast<std::size_t>(plan.tiles)] + static_cast<double>(plan.candidates);
}

Draft any_draft() {
  return {.request = {.model = small_model({}),
                      .cluster = star_cluster({DeviceSpec{}}),
                      .workload = {1, 1}}};
}

// No plan for 3 tiles with 2 candidates.
Found leaf(const Draft& draft) {
  Plan plan = plan_of("local", {}, 0, {.heads = {4}, .columns = {6}});
  plan.tiles = draft.request.tiles.value();
  plan.candidates = draft.request.candidates;
  if (plan.tiles == 3 && plan.candidates == 2) return {.answer = Infeasible{"does not fit"}};
  return {.answer = plan};
}

constexpr Axis kTiles{.name = "tiles",
                      .applies = [](const Draft& draft) { return !draft.request.tiles; },
                      .walk =
                          [](const Draft& draft, Alternatives& all) {
                            all.compare_by(seconds_of);
                            for (const std::int32_t tiles : {3, 0, 1, 2}) {
                              Draft next = draft;
                              next.request.tiles = tiles;
                              all.offer(std::to_string(tiles), next);
                            }
                          }};

constexpr Axis kCandidates{.name = "candidates",
                           .applies = [](const Draft& draft) { return draft.request.rounds == 0; },
                           .walk =
                               [](const Draft& draft, Alternatives& all) {
                                 all.compare_by(seconds_of);
                                 for (const std::int32_t candidates : {2, 1}) {
                                   Draft next = draft;
                                   next.request.candidates = candidates;
                                   all.offer(std::to_string(candidates), next);
                                 }
                               }};

constexpr std::array<const Axis*, 2> kAxes{&kCandidates, &kTiles};

TEST_CASE("planner/engine: nested axes find the best of all combinations, and say how") {
  Draft draft = any_draft();
  draft.request.rounds = 0;
  const Found found = planner::walk(draft, kAxes, leaf);
  REQUIRE(found.plan() != nullptr);
  CHECK(found.plan()->tiles == 3);  // 3 + 1 seconds: with 2 candidates there is no plan of 3 tiles
  CHECK(found.plan()->candidates == 1);
  REQUIRE(found.decisions.size() == 2);
  const planner::Decision& outer = found.decisions[0];
  CHECK(outer.axis == "candidates");
  REQUIRE(outer.alternatives.size() == 2);
  CHECK(outer.alternatives[0].seconds == 7.0);  // 5 + 2
  CHECK(outer.alternatives[1].seconds == 4.0);
  CHECK(outer.selected == 1);
  const planner::Decision& inner = found.decisions[1];  // of the selected candidates
  CHECK(inner.axis == "tiles");
  REQUIRE(inner.alternatives.size() == 4);
  CHECK(inner.alternatives[inner.selected].label == "3");
  CHECK(inner.alternatives[1].seconds == 10.0);
}

TEST_CASE("planner/engine: an axis that does not apply is skipped, and leaves no decision") {
  Draft draft = any_draft();
  draft.request.tiles = 2;
  const Found found = planner::walk(draft, kAxes, leaf);
  REQUIRE(found.plan() != nullptr);
  CHECK(found.plan()->tiles == 2);
  CHECK(found.decisions.empty());
}

TEST_CASE("planner/engine: a plan beats a reason, and the first reason stays without a plan") {
  Draft draft = any_draft();
  draft.request.candidates = 2;
  Alternatives all(kTiles, {}, leaf);
  int timed = 0;
  all.compare_by([&](const Plan& plan) {
    ++timed;
    return seconds_of(plan);
  });
  const auto offer = [&](std::int32_t tiles) {
    draft.request.tiles = tiles;
    return all.offer(std::to_string(tiles), draft);
  };
  CHECK(!all.offer("never", [] { return Found{.answer = Infeasible{"first"}}; }));
  CHECK(!offer(3));
  CHECK(all.best() == nullptr);
  CHECK(offer(0));
  CHECK(timed == 0);  // a single plan is not timed
  CHECK(!offer(0));   // nor is an equal one
  CHECK(timed == 0);
  CHECK(offer(1));
  CHECK(timed == 2);
  CHECK(!offer(2));
  CHECK(timed == 3);
  const Found found = std::move(all).found();
  REQUIRE(found.decisions.size() == 1);
  CHECK(found.decisions[0].alternatives[0].reason == "first");
  CHECK(found.decisions[0].alternatives[1].reason == "does not fit");
  CHECK(found.decisions[0].selected == 4);

  Alternatives none(kTiles, {}, leaf);
  for (const char* const reason : {"first", "second"})
    none.offer(reason, [&] { return Found{.answer = Infeasible{reason}}; });
  CHECK(std::get<Infeasible>(std::move(none).found().answer).reason == "first");
}

TEST_CASE("planner/engine: what is kept alone is finished, and one that cannot be is not kept") {
  Draft draft = any_draft();
  Alternatives all(kTiles, {}, leaf);
  all.compare_by(seconds_of);
  std::string finished;
  const auto offer = [&](std::int32_t tiles) {
    draft.request.tiles = tiles;
    draft.request.candidates = 0;
    return all.offer(
        std::to_string(tiles), [&] { return leaf(draft); },
        [&](Plan plan) -> planner::Answer {
          finished += std::to_string(plan.tiles);
          if (plan.tiles == 3) return Infeasible{"no memory"};
          return plan;
        });
  };
  CHECK(offer(1));        // 5 seconds
  CHECK_FALSE(offer(0));  // 9
  CHECK_FALSE(offer(2));  // 7
  CHECK_FALSE(offer(3));  // 3, but without memory
  CHECK(finished == "13");
  REQUIRE(all.best() != nullptr);
  CHECK(all.best()->tiles == 1);
  const Found found = std::move(all).found();
  CHECK(found.decisions[0].alternatives[3].reason == "no memory");
  CHECK_FALSE(found.decisions[0].alternatives[3].seconds);
  CHECK(found.decisions[0].selected == 0);
}

TEST_CASE("planner/engine: an axis that the search left early says so") {
  planner::SearchEffort effort({.evaluations = 1});
  const planner::EffortScope scope(effort);
  effort.has_plan();
  CHECK_FALSE(planner::walk(any_draft(), kAxes, leaf).decisions[0].is_cut);
  planner::count_evaluation();
  CHECK(planner::walk(any_draft(), kAxes, leaf).decisions[0].is_cut);
}

TEST_CASE("planner/engine: a difference of rounding does not replace the first") {
  Alternatives all(kTiles, {}, leaf);
  all.compare_by([](const Plan& plan) { return 1.0 - 1e-12 * static_cast<double>(plan.tiles); });
  for (const std::int32_t tiles : {0, 1}) {
    Draft draft = any_draft();
    draft.request.tiles = tiles;
    all.offer(std::to_string(tiles), draft);
  }
  CHECK(std::move(all).found().plan()->tiles == 0);
}

TEST_CASE("planner/engine: an ended search still returns the first plan, and makes no more") {
  planner::SearchEffort effort;
  effort.interrupt();
  const planner::EffortScope scope(effort);
  Draft draft = any_draft();
  draft.request.rounds = 0;
  const Found found = planner::walk(draft, kAxes, leaf);
  REQUIRE(found.plan() != nullptr);
  CHECK(found.plan()->tiles == 0);  // 3 tiles with 2 candidates have no plan
  CHECK(found.decisions[0].alternatives.size() == 1);
  CHECK(found.decisions[1].alternatives.size() == 2);
}

}  // namespace
}  // namespace tandem::test::engine_test
