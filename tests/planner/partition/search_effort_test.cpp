#include "planner/partition/search_effort.hpp"

#include <doctest/doctest.h>

namespace tandem::planner::search_effort_test {
namespace {

SearchEffort::Limits long_past() { return {.seconds = -1.0, .evaluations = {}}; }

TEST_CASE("planner/search effort: what takes too long is given up, once there is a plan") {
  SearchEffort effort(long_past());
  const EffortScope counted(effort);
  const AbandonScope scope(effort);
  count_evaluation();
  CHECK(!effort.is_overdue());
  effort.has_plan();
  CHECK(effort.ended());
  CHECK(effort.is_overdue());
  CHECK_THROWS_AS(count_evaluation(), SearchAbandoned);
  CHECK_THROWS_AS(abandon_if_overdue(), SearchAbandoned);
  CHECK(effort.evaluations() == 2);
}

TEST_CASE("planner/search effort: nothing is given up outside a scope, nor by a count") {
  SearchEffort effort(long_past());
  effort.has_plan();
  { const AbandonScope scope(effort); }
  const EffortScope counted(effort);
  count_evaluation();
  SearchEffort few({.seconds = {}, .evaluations = 1});
  few.has_plan();
  const EffortScope counted_here(few);
  const AbandonScope scope(few);
  for (int i = 0; i < 3; ++i) count_evaluation();
  CHECK(few.ended());
  CHECK(!few.is_overdue());
}

}  // namespace
}  // namespace tandem::planner::search_effort_test
