// How many steps in flight are best, by a clock.

#include "planner/serving/steps_in_flight.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "planner/partition/search_effort.hpp"
#include "planner/plan/capacity.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::steps_in_flight_test {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::int64_t found(std::int64_t usual, const std::vector<double>& seconds) {
  return planner::best_steps(usual, std::ssize(seconds), false, [&](std::int64_t steps) {
    return seconds.at(static_cast<std::size_t>(steps - 1));
  });
}

}  // namespace

TEST_CASE("planner/steps in flight: none is faster, whatever the times are") {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> time(1.0, 1.1);
  for (int again = 0; again < 500; ++again) {
    const auto most = std::uniform_int_distribution<std::size_t>(1, 16)(random);
    std::vector<double> seconds(most);
    for (double& one : seconds)
      one = again % 5 == 0 && random() % 3 == 0 ? kInfinite : time(random);
    const auto usual = std::uniform_int_distribution<std::int64_t>(1, 16)(random);
    const std::int64_t steps = found(usual, seconds);
    REQUIRE(steps >= 1);
    REQUIRE(steps <= std::ssize(seconds));
    const double least = *std::ranges::min_element(seconds);
    if (std::isfinite(least))
      CHECK(seconds[static_cast<std::size_t>(steps - 1)] <= least * (1.0 + 3e-4));
  }
}

TEST_CASE("planner/steps in flight: the usual number stays unless another saves time") {
  for (const std::int64_t usual : {1, 3, 16}) {
    CHECK(found(usual, std::vector<double>(16, 1.0)) == usual);
    std::vector<double> seconds(16, 1.0);
    seconds[6] = 1.0 - 5e-5;
    CHECK(found(usual, seconds) == usual);
    seconds[6] = 1.0 - 5e-4;
    CHECK(found(usual, seconds) == 7);
  }
}

// Steps take memory.
TEST_CASE("planner/steps in flight: of those as fast the fewest") {
  std::vector<double> seconds(16, 2.0);
  for (std::size_t i = 8; i < 16; ++i) seconds[i] = 1.0;
  CHECK(found(4, seconds) == 9);
  seconds[15] = 1.0 - 5e-5;  // as fast
  CHECK(found(4, seconds) == 9);
}

TEST_CASE("planner/steps in flight: each number is asked once") {
  std::multiset<std::int64_t> asked;
  CHECK(planner::best_steps(4, 13, false, [&](std::int64_t steps) {
          asked.insert(steps);
          return 1.0 / static_cast<double>(steps);
        }) == 13);
  CHECK(asked.size() == 13);
  for (std::int64_t steps = 1; steps <= 13; ++steps) CHECK(asked.count(steps) == 1);
}

TEST_CASE("planner/steps in flight: a search that ends has asked for the usual number") {
  planner::SearchEffort effort({.seconds = {}, .evaluations = 0});
  effort.has_plan();
  const planner::EffortScope scope(effort);
  REQUIRE(planner::search_ended());
  CHECK(found(5, std::vector<double>(16, 1.0)) == 5);
}

TEST_CASE("planner/steps in flight: a choice where stages work on several sequences") {
  planner::Request request{.model = small_model({.layers = 4}),
                           .cluster = star_cluster({{1e6}, {1e6}}),
                           .strategy = "pipeline",
                           .workload = {.prompt_tokens = 8, .new_tokens = 2}};
  const planner::Policy& continuous = planner::find_policy("continuous");
  CHECK(planner::may_fly(request, continuous));
  CHECK(planner::may_fly(request, planner::find_policy("recurrent")));
  CHECK_FALSE(planner::may_fly(request, planner::find_policy("sequential")));
  request.rounds = 2;
  CHECK_FALSE(planner::may_fly(request, continuous));
  request.rounds = 1;
  request.head = planner::HeadPlacement::split;
  CHECK_FALSE(planner::may_fly(request, continuous));
  request.head = planner::HeadPlacement::master;
  request.window.blocks = 2;
  CHECK_FALSE(planner::may_fly(request, continuous));
  request.window = {};
  request.strategy = "tensor";
  CHECK_FALSE(planner::may_fly(request, continuous));
}

}  // namespace tandem::test::steps_in_flight_test
