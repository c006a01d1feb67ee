#pragma once

// Requests for plans with sparse attention, and what holds of the graphs of any.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>

#include "model/graph/conflicts.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test {

inline planner::Request sparse_request(const std::string& strategy, const model::Cluster& cluster,
                                       planner::SparseRequest sparse,
                                       planner::Workload workload = {40, 4}) {
  return {.model = small_model({.layers = 6, .heads = 8, .kv_heads = 4, .intermediate = 8}),
          .cluster = cluster,
          .strategy = strategy,
          .partition = "equal",
          .workload = workload,
          .sparse = sparse};
}

inline planner::Plan plan_of(const planner::Request& request) {
  return std::get<planner::Plan>(planner::make_plan(request));
}

// Of its prompt, of a new token and of a text that is scored.
inline void check_graphs(const planner::Plan& plan) {
  const auto rows = static_cast<std::int32_t>(plan.workload.prompt_tokens);
  for (const model::Batch& batch :
       {planner::prompt_batch(plan.workload), planner::decode_batch(rows),
        planner::scored_batch(std::max(2, rows), std::max(2, rows / 2))}) {
    const model::TaskGraph graph = planner::find_strategy(plan.strategy).lower(plan, batch);
    CHECK(model::find_conflict(graph).value_or("") == "");
    CHECK(model::undeclared(graph).empty());
  }
}

}  // namespace tandem::test
